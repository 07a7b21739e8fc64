// Headers may be anybody's: every way to be wrong must end in one line that names the tensor, and what is right must be laid
// out as the Python package lays it out.
#include "tensor/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace xorbit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Buffer FileOf(std::string_view json, uint64_t data_bytes) {
  Buffer file(sizeof(uint64_t) + json.size() + data_bytes, 0x5a);
  StoreLe<uint64_t>(file.data(), json.size());
  std::copy(json.begin(), json.end(), file.begin() + sizeof(uint64_t));
  return file;
}

std::string ErrorOf(std::string_view json, uint64_t data_bytes = 0, Code code = Code::kCorrupt) {
  const auto parsed = ParseSafetensors(FileOf(json, data_bytes));
  if (parsed.ok()) return "";
  EXPECT_EQ(parsed.status().code(), code) << json;
  EXPECT_LT(parsed.status().message().size(), 400) << json;
  for (const char c : parsed.status().message()) EXPECT_GE(static_cast<uint8_t>(c), 0x20) << json;
  return parsed.status().message();
}

TEST(SafetensorsTest, ReadsInTheOrderOfTheBytes) {
  const std::string json =
      R"({"b":{"data_offsets":[4,12],"shape":[2,1,2],"dtype":"BF16"}, "__metadata__":{"format":"pt","":"\n"},)"
      R"("z":{"dtype":"F32","shape":[0,9],"data_offsets":[4,4]},"a":{"dtype":"I64","shape":[],"data_offsets":[12,20]},)"
      R"("y":{"dtype":"F4","shape":[8],"data_offsets":[0,4]},"e":{"dtype":"U8","shape":[0],"data_offsets":[20,20]}}    )";
  const auto parsed = ParseSafetensors(FileOf(json, 20));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->header_bytes, 8 + json.size());
  std::string order;
  for (const SafetensorsEntry& entry : parsed->entries) order += entry.name;
  EXPECT_EQ(order, "yzbae");
  const SafetensorsEntry& b = parsed->entries[2];
  EXPECT_EQ(b.dtype, Dtype::kBF16);
  EXPECT_THAT(b.shape, ElementsAre(2, 1, 2));
  EXPECT_EQ(b.begin, parsed->header_bytes + 4);
  EXPECT_EQ(b.end, parsed->header_bytes + 12);
  EXPECT_THAT(parsed->entries[3].shape, IsEmpty());
  EXPECT_EQ(parsed->metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"", "\n"}}));
}

TEST(SafetensorsTest, EveryDtypeOfTheFormat) {
  for (int code = 1; code <= 22; ++code) {
    const Dtype dtype = *DtypeFromCode(static_cast<uint8_t>(code));
    const uint64_t byte_count = BitsOf(dtype);  // 8 elements
    const std::string json = R"({"t":{"dtype":")" + std::string(NameOf(dtype)) + R"(","shape":[2,4],"data_offsets":[0,)" +
                             std::to_string(byte_count) + "]}}";
    EXPECT_EQ(ErrorOf(json, byte_count), "");
    EXPECT_THAT(ErrorOf(json, byte_count + 1), HasSubstr("1 bytes follow the last tensor"));
  }
}

TEST(SafetensorsTest, Framing) {
  EXPECT_EQ(ErrorOf("{}"), "");
  EXPECT_EQ(ErrorOf("{}      "), "");
  EXPECT_THAT(ErrorOf(""), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(ErrorOf(" {}"), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(ErrorOf("{}x"), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOf(std::string_view("{}\0", 3)), HasSubstr("zero byte"));
  EXPECT_THAT(ErrorOf("{\"a\":{}"), HasSubstr("has no dtype"));
  EXPECT_THAT(ErrorOf("{}", 3), HasSubstr("3 bytes follow the last tensor"));
  const Buffer file = FileOf("{}", 0);
  for (size_t length = 0; length < file.size(); ++length) {
    const auto parsed = ParseSafetensors(ConstBytes(file).first(length));
    ASSERT_FALSE(parsed.ok());
    EXPECT_THAT(parsed.status().message(), HasSubstr("truncated"));
  }
  for (const uint64_t json_bytes : {kSafetensorsMaxHeaderBytes + 1, UINT64_MAX}) {
    Buffer huge(sizeof(uint64_t));
    StoreLe<uint64_t>(huge.data(), json_bytes);
    EXPECT_THAT(ParseSafetensors(huge).status().message(), HasSubstr("over the limit"));
  }
}

TEST(SafetensorsTest, RepeatedKeysAtEveryLevel) {
  const std::string t = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_THAT(ErrorOf("{\"a\":" + t + ",\"b\":" + t + ",\"\\u0061\":" + t + "}"), HasSubstr("tensor 'a' is there twice"));
  EXPECT_THAT(ErrorOf(R"({"__metadata__":{},"__metadata__":{}})"), HasSubstr("__metadata__ is there twice"));
  EXPECT_THAT(ErrorOf(R"({"__metadata__":{"k":"1","k":"1"}})"), HasSubstr("__metadata__ has 'k' twice"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
              HasSubstr("has its dtype twice"));
  EXPECT_THAT(ErrorOf(R"({"a":{"shape":[0],"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
              HasSubstr("has its shape twice"));
}

TEST(SafetensorsTest, FieldsAndTypes) {
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[0]}})"), HasSubstr("tensor 'a' has no data_offsets"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","data_offsets":[0,0]}})"), HasSubstr("tensor 'a' has no shape"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x\n":1}})"), HasSubstr("unknown field 'x\\x0a'"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U9","shape":[0],"data_offsets":[0,0]}})", 0, Code::kUnsupported),
              HasSubstr("tensor 'a' has the unknown dtype 'U9'"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":8}})"), HasSubstr("tensor 'a' must have a string as dtype"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":["U8"]}})"), HasSubstr("tensor 'a' must have a string as dtype"));
  EXPECT_THAT(ErrorOf(R"({"a":{"shape":"0"}})"), HasSubstr("array as shape"));
  EXPECT_THAT(ErrorOf(R"({"a":{"shape":{}}})"), HasSubstr("array as shape"));
  EXPECT_THAT(ErrorOf(R"({"a":{"shape":null}})"), HasSubstr("array as shape"));
  EXPECT_THAT(ErrorOf(R"({"a":{"data_offsets":0}})"), HasSubstr("array as data_offsets"));
  for (const char* value : {"1", "null", "\"x\"", "[]", "true", "-1", "0.5"}) {
    EXPECT_THAT(ErrorOf("{\"a\":" + std::string(value) + "}"), HasSubstr("tensor 'a' must be an object")) << value;
    EXPECT_THAT(ErrorOf("{\"__metadata__\":" + std::string(value) + "}"), HasSubstr("__metadata__ must be an object")) << value;
  }
  for (const char* value : {"1", "null", "[]", "{}", "false"}) {
    EXPECT_THAT(ErrorOf("{\"__metadata__\":{\"k\":" + std::string(value) + "}}"), HasSubstr("but 'k' is something else"))
        << value;
  }
}

TEST(SafetensorsTest, Numbers) {
  for (const char* number :
       {"-1", "-0", "1.0", "1e2", "18446744073709551616", "99999999999999999999999", "\"1\"", "null", "[1]", "{}"}) {
    const std::string n = number;
    EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[)" + n + R"(],"data_offsets":[0,0]}})"),
                HasSubstr("tensor 'a' has something else than non-negative 64-bit integers in its shape"));
    EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,)" + n + "]}}"), HasSubstr("as data_offsets"));
  }
  for (const char* offsets : {"[]", "[0]", "[0,0,0]"}) {
    EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":)" + std::string(offsets) + "}}"),
                HasSubstr("two non-negative 64-bit integers"));
  }
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[1e999],"data_offsets":[0,0]}})"), HasSubstr("number overflow"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"),
              HasSubstr("2^64 elements"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1), HasSubstr("'a' is impossible"));
  std::string ones = "1";
  for (int i = 1; i < 65; ++i) ones += ",1";
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[)" + ones + R"(],"data_offsets":[0,1]}})", 1), HasSubstr("64 dimensions"));
}

TEST(SafetensorsTest, Places) {
  const auto two = [](std::string a, std::string b) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a + R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b +
           "}}";
  };
  EXPECT_EQ(ErrorOf(two("[0,4]", "[4,8]"), 8), "");
  EXPECT_EQ(ErrorOf(two("[4,8]", "[0,4]"), 8), "");
  EXPECT_THAT(ErrorOf(two("[0,4]", "[2,6]"), 8), HasSubstr("tensor 'b' overlaps tensor 'a'"));
  EXPECT_THAT(ErrorOf(two("[0,4]", "[0,4]"), 4), HasSubstr("tensor 'b' overlaps tensor 'a'"));
  EXPECT_THAT(ErrorOf(two("[0,4]", "[6,10]"), 10), HasSubstr("tensor 'b' comes after a hole of 2 bytes"));
  EXPECT_THAT(ErrorOf(two("[1,5]", "[5,9]"), 9), HasSubstr("tensor 'a' comes after a hole of 1 bytes"));
  EXPECT_THAT(ErrorOf(two("[4,0]", "[4,8]"), 8), HasSubstr("tensor 'a' ends before it begins"));
  EXPECT_THAT(ErrorOf(two("[0,4]", "[4,8]"), 7), HasSubstr("tensor 'b' reaches 1 bytes past the file's end"));
  EXPECT_THAT(ErrorOf(two("[0,4]", "[4,18446744073709551615]"), 8), HasSubstr("past the file's end"));
  EXPECT_THAT(ErrorOf(two("[0,4]", "[4,9]"), 9), HasSubstr("tensor 'b' has 5 bytes, but its dtype and shape need 4"));
  EXPECT_THAT(ErrorOf(two("[0,4]", "[4,8]"), 9), HasSubstr("1 bytes follow the last tensor"));
}

TEST(SafetensorsTest, HostileText) {
  EXPECT_THAT(ErrorOf("{\"a\xff\":{}}"), HasSubstr("ill-formed UTF-8"));
  EXPECT_THAT(ErrorOf(R"({"\ud800":{}})"), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOf("{\"a\":" + std::string(1'000'000, '[')), HasSubstr("must be an object"));
  EXPECT_THAT(ErrorOf("{\"a\":{\"shape\":" + std::string(1'000'000, '[')), HasSubstr("something else than"));
  EXPECT_THAT(ErrorOf("{" + std::string(1'000'000, ' ')), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOf("{\"" + std::string(1'000'000, 'n') + "\":1}"), HasSubstr("nnn...' must be an object"));
  EXPECT_THAT(ErrorOf(R"({"\u001b[2J\n":1})"), HasSubstr("'\\x1b[2J\\x0a'"));
}

SafetensorsEntry Entry(std::string name, Dtype dtype, std::vector<uint64_t> shape) {
  return {std::move(name), dtype, std::move(shape), 77, 3};
}

// Written by safetensors 0.8.0: serialize({"a\"\n\x01é\x7f/\\😀": uint8 [], "z": float32 [0, 3]}, {"format": "pt"}).
TEST(SafetensorsTest, HeaderGolden) {
  const auto header = BuildSafetensorsHeader(
      {{Entry("z", Dtype::kF32, {0, 3}), Entry("a\"\n\x01\xc3\xa9\x7f/\\\xf0\x9f\x98\x80", Dtype::kU8, {})},
       {{"format", "pt"}}});
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(
      AsText(*header),
      std::string("\xa0\0\0\0\0\0\0\0", 8) +
          "{\"__metadata__\":{\"format\":\"pt\"},\"z\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[0,0]},"
          "\"a\\\"\\n\\u0001\xc3\xa9\x7f/\\\\\xf0\x9f\x98\x80\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}  ");
  const auto empty = BuildSafetensorsHeader({});
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(AsText(*empty), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST(SafetensorsTest, HeadersReadBack) {
  const std::vector<SafetensorsEntry> entries = {Entry("b\x1f\b\f\r\t", Dtype::kF6E3M2, {4, 3}), Entry("", Dtype::kC64, {}),
                                                 Entry("a", Dtype::kBF16, {0})};
  auto file = BuildSafetensorsHeader({entries, {{"k\"", "v\\"}}});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->size() % 8, 0);
  file->resize(file->size() + 9 + 8);
  const auto parsed = ParseSafetensors(*file);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->metadata, (std::map<std::string, std::string>{{"k\"", "v\\"}}));
  ASSERT_EQ(parsed->entries.size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(parsed->entries[i].name, entries[i].name);
    EXPECT_EQ(parsed->entries[i].dtype, entries[i].dtype);
    EXPECT_EQ(parsed->entries[i].shape, entries[i].shape);
  }
}

TEST(SafetensorsTest, BuildsNothingThatIsRefused) {
  const auto error_of = [](SafetensorsHeaderSpec spec) {
    const auto header = BuildSafetensorsHeader(spec);
    return header.ok() ? "" : header.status().message();
  };
  EXPECT_THAT(error_of({{Entry("a", Dtype::kU8, {}), Entry("a", Dtype::kU8, {})}, {}}), HasSubstr("tensor 'a' is there twice"));
  EXPECT_THAT(error_of({{Entry("__metadata__", Dtype::kU8, {})}, {}}), HasSubstr("may not be named __metadata__"));
  EXPECT_THAT(error_of({{Entry("\xff", Dtype::kU8, {})}, {}}), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(error_of({{}, {{"k", "\xff"}}}), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(error_of({{Entry("a", Dtype::kF4, {1})}, {}}), HasSubstr("tensor 'a': shape"));
  EXPECT_THAT(error_of({{Entry("a", Dtype::kU8, {UINT64_MAX >> 3}), Entry("b", Dtype::kU8, {UINT64_MAX >> 3})}, {}}), "");
  EXPECT_THAT(error_of({{Entry(std::string(kSafetensorsMaxHeaderBytes, 'x'), Dtype::kU8, {})}, {}}),
              HasSubstr("over the format's limit"));
}

// The order in which safetensors 0.8.0 lays down one tensor of each type it can write.
TEST(SafetensorsTest, WidestTypesFirstAsThePackageDoes) {
  const std::vector<Dtype> order = {Dtype::kU64,    Dtype::kI64,        Dtype::kF64,        Dtype::kC64,    Dtype::kF32,
                                    Dtype::kU32,    Dtype::kI32,        Dtype::kBF16,       Dtype::kF16,    Dtype::kU16,
                                    Dtype::kI16,    Dtype::kF8E5M2FNUZ, Dtype::kF8E4M3FNUZ, Dtype::kF8E8M0, Dtype::kF8E4M3,
                                    Dtype::kF8E5M2, Dtype::kI8,         Dtype::kU8,         Dtype::kF4,     Dtype::kBool};
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    EXPECT_TRUE(SafetensorsWritesBefore(order[i], "b", order[i + 1], "a")) << NameOf(order[i]);
    EXPECT_FALSE(SafetensorsWritesBefore(order[i + 1], "a", order[i], "b")) << NameOf(order[i]);
    EXPECT_GE(BitsOf(order[i]), i + 2 == order.size() ? 0 : BitsOf(order[i + 1])) << "alignment";
  }
  EXPECT_TRUE(SafetensorsWritesBefore(Dtype::kU8, "a", Dtype::kU8, "b"));
  EXPECT_FALSE(SafetensorsWritesBefore(Dtype::kU8, "b", Dtype::kU8, "a"));
}

}  // namespace
}  // namespace xorbit
