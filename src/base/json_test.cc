// The strict JSON reader: what it keeps, what it refuses (repeated keys, depth, wrong types), and that it never throws.
#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xorbit {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text, uint32_t max_depth = 4) {
  const auto json = ParseJson(text, max_depth);
  return json.ok() ? "" : json.status().message();
}

TEST(Json, KeepsValues) {
  const auto json = ParseJson(R"( {"a":[1,18446744073709551615,-3,1.5,"x\u00e9\u0000",null,true],"b":{"c":{}}} )", 3);
  ASSERT_TRUE(json.ok()) << json.status().message();
  EXPECT_EQ((*json)["a"][1], UINT64_MAX);
  EXPECT_EQ((*json)["a"][4].get<std::string>(), std::string("x\xc3\xa9\0", 4));
  EXPECT_EQ(json->dump(), "{\"a\":[1,18446744073709551615,-3,1.5,\"x\xc3\xa9\\u0000\",null,true],\"b\":{\"c\":{}}}");
}

TEST(Json, RefusesMalformedText) {
  for (const std::string_view text :
       {"", "{", "{\"a\":1,}", "[1] 2", "nan", "{'a':1}", "\"\xff\"", "\"\\ud800\"", "01", "[1e999]", "\"\n\""}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("is not valid JSON")) << text;
    EXPECT_EQ(ErrorOf(text).find('\n'), std::string::npos);
  }
}

TEST(Json, NothingHidesBehindAZeroByte) {
  EXPECT_THAT(ErrorOf(std::string_view("{}\0[1]", 6)), HasSubstr("zero byte at byte 2"));
  EXPECT_THAT(ErrorOf("\xef\xbb\xbf{}"), HasSubstr("byte order mark"));
}

TEST(Json, RefusesRepeatedKeysAtAnyDepth) {
  EXPECT_THAT(ErrorOf(R"({"a":1,"a":1})"), HasSubstr("repeats a key"));
  EXPECT_THAT(ErrorOf(R"([{"b":{"a":1,"\u0061":null}}])"), HasSubstr("repeats a key"));
  EXPECT_EQ(ErrorOf(R"([{"a":1},{"a":1}])"), "");
}

TEST(Json, BoundsTheDepth) {
  EXPECT_EQ(ErrorOf("[[[[]]]]", 4), "");
  EXPECT_THAT(ErrorOf("[[[[]]]]", 3), HasSubstr("nested deeper than 3"));
  EXPECT_THAT(ErrorOf(std::string(10'000'000, '['), 8), HasSubstr("nested deeper than 8"));
  EXPECT_EQ(ErrorOf("1", 0), "");
}

TEST(Json, GettersAreStrict) {
  const auto json =
      ParseJson(R"({"n":7,"negative":-7,"real":7.0,"zero":-0,"large":18446744073709551616,"s":"x","b":true,"o":{},"a":[]})", 2);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(*GetUnsigned(*json, "n"), 7U);
  EXPECT_EQ(GetUnsigned(*json, "n", 6).status().message(), "field 'n' must be at most 6");
  for (const std::string_view key : {"negative", "real", "zero", "large", "s", "b", "o"}) {
    EXPECT_EQ(GetUnsigned(*json, key).status().code(), Code::kCorrupt) << key;
  }
  EXPECT_EQ(GetUnsigned(*json, "absent").status().message(), "field 'absent' is missing");
  EXPECT_EQ(*GetString(*json, "s"), "x");
  EXPECT_FALSE(GetString(*json, "n").ok());
  EXPECT_TRUE(*GetBool(*json, "b"));
  EXPECT_FALSE(GetBool(*json, "n").ok());
  EXPECT_TRUE(GetObject(*json, "o").ok());
  EXPECT_FALSE(GetObject(*json, "a").ok());
  EXPECT_TRUE(GetArray(*json, "a").ok());
  EXPECT_FALSE(GetArray(*json, "o").ok());
}

TEST(Json, UnknownFieldsMatterOnlyWhenCritical) {
  const auto check = [](std::string_view text) { return CheckCriticalFields(*ParseJson(text, 3), {"known"}); };
  EXPECT_TRUE(check(R"({"known":1,"other":2})").ok());
  EXPECT_TRUE(check(R"({"known":1,"other":2,"critical":["known"]})").ok());
  EXPECT_EQ(check(R"({"known":1,"other":2,"critical":["other"]})").code(), Code::kUnsupported);
  EXPECT_EQ(check(R"({"known":1,"critical":["absent"]})").code(), Code::kCorrupt);
  EXPECT_EQ(check(R"({"known":1,"critical":"known"})").code(), Code::kCorrupt);
  EXPECT_EQ(check(R"({"known":1,"critical":[1]})").code(), Code::kCorrupt);
}

TEST(Json, DumpNeverThrows) {
  OrderedJson json;
  json["z"] = "\xff";
  json["a"] = 1;
  EXPECT_EQ(DumpJson(json), "{\"z\":\"\xef\xbf\xbd\",\"a\":1}");
}

}  // namespace
}  // namespace xorbit
