// The strict JSON reader: what it keeps, what it refuses (repeated keys, depth, wrong types), and that it never throws.
#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xorbit {
namespace {

using ::testing::HasSubstr;

// Keeps everything down to some levels.
JsonShape Everything(int levels = 6) { return levels == 0 ? JsonShape() : JsonShape::Each(Everything(levels - 1), 100); }

std::string ErrorOf(std::string_view text, uint32_t max_depth = 4) {
  const auto json = ParseJson(text, Everything(), max_depth);
  return json.ok() ? "" : json.status().message();
}

TEST(Json, KeepsValues) {
  const auto json =
      ParseJson(R"( {"a":[1,18446744073709551615,-3,1.5,"x\u00e9\u0000",null,true],"b":{"c":{}}} )", Everything(), 3);
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

// The values of unknown fields, and what stands where a string or number should, cost nothing but the time to read them.
TEST(Json, DropsWhatTheShapeHasNoPlaceFor) {
  JsonShape shape;
  shape.fields = {
      {"a", {}}, {"list", JsonShape::Each({}, 3)}, {"o", {.fields = {{"x", {}}}, .each = {}, .max_count = 0, .take = {}}}};
  const auto dump = [&](std::string_view text) {
    const auto json = ParseJson(text, shape, 5);
    return json.ok() ? json->dump() : json.status().message();
  };
  EXPECT_EQ(dump(R"({"a":1,"list":[1,"b"],"o":{"x":2}})"), R"({"a":1,"list":[1,"b"],"o":{"x":2}})");
  EXPECT_EQ(dump(R"({"a":[1,[2],{"b":3}],"list":[[1,2],{}],"o":{"x":{"y":{}}}})"),
            R"({"a":[],"list":[[],{}],"o":{"x":{"y":null}}})");
  EXPECT_EQ(dump(R"({"u":[1,{"v":[2]}],"w":"text","a":1})"), R"({"a":1,"u":null,"w":null})");
  EXPECT_EQ(dump("[1,2,[3]]"), "[]");
  // Dropped text must be JSON all the same, and not nested deeper than the rest.
  EXPECT_THAT(dump(R"({"u":[1,}})"), HasSubstr("is not valid JSON"));
  EXPECT_THAT(dump(R"({"u":[[[[[]]]]]})"), HasSubstr("nested deeper than 5"));
  EXPECT_THAT(dump(R"({"u":1,"u":2})"), HasSubstr("repeats a key"));
}

TEST(Json, BoundsWhatIsKept) {
  std::string hundred = "[0";
  for (int i = 1; i < 100; ++i) hundred += ",0";
  EXPECT_EQ(ErrorOf(hundred + "]"), "");
  EXPECT_THAT(ErrorOf(hundred + ",0]"), HasSubstr("has more than 100 entries"));
  const auto unknown_fields = [](uint64_t count) {
    std::string text = "{";
    for (uint64_t i = 0; i < count; ++i) text += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":[0]";
    return ParseJson(text + "}", {}, 3).status().message();
  };
  EXPECT_EQ(unknown_fields(kMaxUnknownJsonFields), "");
  EXPECT_THAT(unknown_fields(kMaxUnknownJsonFields + 1), HasSubstr("more than 64 unknown fields"));
}

TEST(Json, HandsValuesOverOneByOne) {
  std::string taken;
  JsonShape entry = JsonShape::Each({}, 5);
  entry.take = [&](const std::string& key, const Json& value) {
    taken += key + value.dump() + ";";
    return value == 13 ? RefusedError("unlucky") : Status();
  };
  JsonShape shape;
  shape.fields = {{"rows", JsonShape::Each(entry, UINT64_MAX)}};
  EXPECT_EQ(ParseJson(R"({"rows":[[1,2],"x",{"a":3}],"u":[4]})", shape, 4)->dump(), R"({"rows":[],"u":null})");
  EXPECT_EQ(taken, R"([1,2];"x";{"a":3};)");
  taken.clear();
  EXPECT_EQ(ParseJson(R"({"rows":{"k":[1],"l":2}})", shape, 4)->dump(), R"({"rows":{}})");
  EXPECT_EQ(taken, "k[1];l2;");
  taken.clear();
  EXPECT_EQ(ParseJson(R"({"rows":[12,13,14]})", shape, 4).status().message(), "unlucky");
  EXPECT_EQ(taken, "12;13;");
}

TEST(Json, GettersAreStrict) {
  const auto json =
      ParseJson(R"({"n":7,"negative":-7,"real":7.0,"zero":-0,"large":18446744073709551616,"s":"x","b":true,"o":{},"a":[]})",
                Everything(), 2);
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
  const auto check = [](std::string_view text) {
    JsonShape shape;
    shape.fields = {{"known", {}}, {"critical", JsonShape::Each({}, 3)}};
    return CheckCriticalFields(*ParseJson(text, shape, 3), {"known"});
  };
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
