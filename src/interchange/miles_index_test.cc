// The index as Miles writes it, and everything that could make us read the wrong file or take a mask for weights.
#include "interchange/miles_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace xorbit {
namespace {

using testing::HasSubstr;

// As Miles writes it.
constexpr std::string_view kIndex = R"({
  "metadata": {
    "version": "000007",
    "base_version": "000006",
    "delta_encoding": "xor",
    "compression_format": "zstd",
    "checksum_format": "xxh3-128"
  },
  "weight_map": {"a.weight": "model-00000-of-00002.safetensors", "b.weight": "model-00001-of-00002.safetensors"}
})";

// kIndex with `from` replaced by `to`.
std::string Changed(std::string_view from, std::string_view to) {
  std::string text(kIndex);
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(MilesIndex, ReadsWhatMilesWrites) {
  const MilesIndex index = ParseMilesIndex(kIndex).value();
  EXPECT_EQ(index.version, 7U);
  EXPECT_EQ(index.base_version, 6U);
  EXPECT_EQ(index.encoding, MilesEncoding::kXor);
  EXPECT_EQ(index.checksum_format, ChecksumFormat::kXxh128);
  EXPECT_EQ(index.weight_map.at("b.weight"), "model-00001-of-00002.safetensors");
  EXPECT_EQ(ParseMilesIndex(Changed("\"xor\"", "\"overwrite\"")).value().encoding, MilesEncoding::kOverwrite);
  EXPECT_EQ(ParseMilesIndex(Changed("xxh3-128", "adler32")).value().checksum_format, ChecksumFormat::kAdler32);
}

TEST(MilesIndex, RoundTrips) {
  MilesIndex index{1234567, 12, MilesEncoding::kOverwrite, ChecksumFormat::kAdler32, {}};
  for (int i = 0; i < 100; ++i) index.weight_map["layers." + std::to_string(i)] = MilesPayloadName(i % 3, 3);
  EXPECT_EQ(ParseMilesIndex(WriteMilesIndex(index)).value(), index);
  index.weight_map.clear();
  EXPECT_EQ(ParseMilesIndex(WriteMilesIndex(index)).value(), index);
}

TEST(MilesIndex, WritesZeroPaddedNames) {
  EXPECT_EQ(MilesFolderName(7), "weight_v000007");
  EXPECT_EQ(MilesFolderName(12345678), "weight_v12345678");
  EXPECT_EQ(MilesPayloadName(1, 12), "model-00001-of-00012.safetensors");
  EXPECT_THAT(WriteMilesIndex(MilesIndex{}), HasSubstr(R"("version":"000000")"));
}

TEST(MilesIndex, TellsFullVersionsFromDeltas) {
  for (const std::string& text : {Changed("\"delta_encoding\": \"xor\",", ""), std::string(R"({"weight_map": {}})")}) {
    const Status status = ParseMilesIndex(text).status();
    EXPECT_EQ(status.code(), Code::kRefused);
    EXPECT_THAT(status.message(), HasSubstr("as a checkpoint"));
  }
}

TEST(MilesIndex, RefusesWhatItCannotRead) {
  EXPECT_EQ(ParseMilesIndex(Changed("\"xor\"", "\"sub\"")).status().code(), Code::kUnsupported);
  EXPECT_EQ(ParseMilesIndex(Changed("zstd", "lz4")).status().code(), Code::kUnsupported);
  EXPECT_EQ(ParseMilesIndex(Changed("xxh3-128", "blake3")).status().code(), Code::kUnsupported);
}

TEST(MilesIndex, RefusesBrokenFields) {
  for (const auto& [from, to] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"\"000007\"", "7"},
           {"\"000007\"", "\"\""},
           {"\"000007\"", "\"-00007\""},
           {"\"000007\"", "\"0x7\""},
           {"\"000007\"", "\"99999999999999999999999\""},
           {"\"base_version\": \"000006\",", ""},
           {"\"compression_format\": \"zstd\",", ""},
           {"\"xor\"", "1"},
           {"\"base_version\"", "\"version\""},
           {"b.weight", "a.weight"},
           {"\"model-00001-of-00002.safetensors\"", "1"},
           {"}\n}", "}"},
           {"{\"a.weight\"", "[{\"a.weight\""},
       }) {
    ASSERT_NE(kIndex.find(from), std::string_view::npos) << from;
    EXPECT_EQ(ParseMilesIndex(Changed(from, to)).status().code(), Code::kCorrupt) << from << " -> " << to;
  }
  EXPECT_EQ(ParseMilesIndex("").status().code(), Code::kCorrupt);
  EXPECT_EQ(ParseMilesIndex("[]").status().code(), Code::kCorrupt);
  EXPECT_EQ(ParseMilesIndex(std::string(100000, '[')).status().code(), Code::kCorrupt);
}

TEST(MilesIndex, NoNameLeadsOutOfTheFolder) {
  for (const std::string_view name :
       {"../model.safetensors", "/etc/model.safetensors", "sub/model.safetensors", "..", "", "a\\\\b.safetensors",
        ".hidden.safetensors", ".safetensors", "a\\u0000.safetensors", "model.bin"}) {
    const Status status = ParseMilesIndex(Changed("model-00001-of-00002.safetensors", name)).status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << name;
    EXPECT_THAT(status.message(), HasSubstr("not the name of a .safetensors file")) << name;
  }
}

}  // namespace
}  // namespace xorbit
