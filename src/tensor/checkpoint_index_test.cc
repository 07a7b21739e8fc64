// The index may be anybody's: it names files to open, so names must stay in the folder, and it must agree with the headers.
#include "tensor/checkpoint_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xorbit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ErrorOf(std::string_view json) {
  const auto index = ParseCheckpointIndex(AsBytes(json));
  if (index.ok()) return "";
  EXPECT_EQ(index.status().code(), Code::kCorrupt) << json;
  return index.status().message();
}

TEST(CheckpointIndexTest, ReadsTheMapAndIgnoresTheRest) {
  const auto index = ParseCheckpointIndex(AsBytes(
      R"({"metadata":{"total_size":1.5e3,"weight_map":{"no":["this",{"is":null}]}},"x":[[]],"weight_map":{"b":"2","a":"1","c":"1"},"y":-1})"));
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_THAT(index->file_names, ElementsAre("1", "2"));
  ASSERT_EQ(index->tensors.size(), 3);
  EXPECT_EQ(index->tensors[0].name, "a");
  EXPECT_EQ(index->tensors[0].file_index, 0);
  EXPECT_EQ(index->tensors[1].name, "b");
  EXPECT_EQ(index->tensors[1].file_index, 1);
  EXPECT_EQ(index->tensors[2].file_index, 0);
}

TEST(CheckpointIndexTest, RefusesWhatIsNoIndex) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("must be a JSON object"));
  EXPECT_THAT(ErrorOf("1"), HasSubstr("must be a JSON object"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("no weight_map"));
  EXPECT_THAT(ErrorOf(R"({"metadata":{"weight_map":{}}})"), HasSubstr("no weight_map"));
  EXPECT_THAT(ErrorOf(R"({"weight_map":{},"weight_map":{}})"), HasSubstr("weight_map is there twice"));
  EXPECT_THAT(ErrorOf(R"({"weight_map":{"a":"1","b":"1","a":"2"}})"), HasSubstr("tensor 'a' twice"));
  for (const char* value : {"1", "null", "\"x\"", "[]", "true"}) {
    EXPECT_THAT(ErrorOf("{\"weight_map\":" + std::string(value) + "}"), HasSubstr("weight_map must be an object")) << value;
  }
  for (const char* value : {"1", "null", "{}", "[]", "true"}) {
    EXPECT_THAT(ErrorOf("{\"weight_map\":{\"a\":" + std::string(value) + "}}"), HasSubstr("must give tensor 'a' a file name"))
        << value;
  }
  EXPECT_THAT(ErrorOf("{\"x\":" + std::string(1'000'000, '[')), HasSubstr("nested deeper"));
}

TEST(CheckpointIndexTest, FileNamesStayInTheFolder) {
  for (const char* name :
       {"", ".", "..", "../a.safetensors", "/etc/passwd", "a/b.safetensors", "a\\\\b", ".hidden", "a\\u0000b"}) {
    EXPECT_THAT(ErrorOf("{\"weight_map\":{\"a\":\"" + std::string(name) + "\"}}"), HasSubstr("not a plain file name")) << name;
  }
  std::string many = "{\"weight_map\":{";
  for (uint64_t i = 0; i <= kCheckpointMaxFiles; ++i) {
    many += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"" + std::to_string(i) + "\"";
  }
  EXPECT_THAT(ErrorOf(many + "}}"), HasSubstr("more than 65536 files"));
}

TEST(CheckpointIndexTest, AgreementGoesBothWays) {
  const CheckpointIndex index = {{{"a", 0}, {"b", 1}, {"c", 1}}, {"one", "two"}};
  const auto check = [&](std::vector<HeldTensor> held) { return CheckIndexAgrees(index, held).message(); };
  EXPECT_EQ(check({{"a", 0}, {"b", 1}, {"c", 1}}), "");
  EXPECT_EQ(check({{"a", 0}, {"b", 0}, {"c", 1}}), "the index puts tensor 'b' into 'two', but it is in 'one'");
  EXPECT_EQ(check({{"a", 0}, {"c", 1}}), "the index puts tensor 'b' into 'two', which does not hold it");
  EXPECT_EQ(check({{"a", 0}, {"b", 1}}), "the index puts tensor 'c' into 'two', which does not hold it");
  EXPECT_EQ(check({{"a", 0}, {"aa", 0}, {"b", 1}, {"c", 1}}), "tensor 'aa' is in 'one', but the index does not have it");
  EXPECT_EQ(check({{"a", 0}, {"b", 1}, {"c", 1}, {"d", 1}}), "tensor 'd' is in 'two', but the index does not have it");
}

// json.dumps(..., indent=2, sort_keys=True) + "\n", as huggingface_hub and transformers write it.
TEST(CheckpointIndexTest, WritesWhatTheToolsWrite) {
  const CheckpointIndex index = {{{"a", 0}, {"\xc3\xa9", 1}}, {"one", "two"}};
  const std::string text = BuildCheckpointIndex(index, 12);
  EXPECT_EQ(text,
            "{\n  \"metadata\": {\n    \"total_size\": 12\n  },\n  \"weight_map\": {\n    \"a\": \"one\",\n    \"\\u00e9\": "
            "\"two\"\n  }\n}\n");
  const auto back = ParseCheckpointIndex(AsBytes(text));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->file_names, index.file_names);
  EXPECT_EQ(back->tensors[1].name, index.tensors[1].name);
}

}  // namespace
}  // namespace xorbit
