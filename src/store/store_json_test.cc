// The small files of a store: what is written is read back, and what does not follow the page is refused in one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/testing/seed.h"
#include "store/anchor.h"
#include "store/head_hint.h"
#include "store/testing/made_up_stream.h"
#include "store/tombstones.h"

namespace xorbit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

VersionRecord SomeRecord() {
  VersionRecord record;
  record.version = 7;
  record.decision = Decision::kCommitted;
  record.target = {1, 2};
  record.layout_digest[3] = 4;
  record.parent = 5;
  record.publication_id = "trainer-2.try_3";
  record.manifest_sha256[31] = 6;
  return record;
}

Receipt SomeReceipt() {
  Receipt receipt;
  receipt.place = {5, 7, "t"};
  receipt.owner_index = 1;
  receipt.owner_count = 3;
  receipt.owner.byte_count = 1000;
  receipt.owner.head_byte_count = 200;
  receipt.owner.change_count = 9;
  receipt.owner.sha256[0] = 1;
  receipt.owner.file = PayloadFileName(1, receipt.owner.sha256);
  receipt.owner.change = {3, 4};
  receipt.base_part = {5, 6};
  receipt.witnesses = {{1, {}, {7, 8}}, {2, {}, {9, 10}}};
  return receipt;
}

// One file format: an example, and a reader that gives what it read as text again.
struct Format {
  const char* name;
  std::string text;
  Result<std::string> (*rewrite)(std::string_view);
};

template <auto kParse, auto kWrite>
Result<std::string> Rewrite(std::string_view text) {
  XORBIT_ASSIGN_OR_RETURN(const auto value, kParse(text));
  return kWrite(value);
}

std::vector<Format> Formats() {
  const Tombstones tombstones{3, {{0, 1, "a"}, {0, 2, "fold"}}, {4, 9}};
  const Anchor anchor{4, {1, 2}, {{"a.safetensors", 3, {}}, {"config.json", 4, {}}}};
  return {
      {"stream", WriteStreamInfo(testing_store::SmallStreamInfo()), Rewrite<ParseStreamInfo, WriteStreamInfo>},
      {"commit", WriteVersionRecord(SomeRecord()), Rewrite<ParseVersionRecord, WriteVersionRecord>},
      {"abort", WriteVersionRecord(AbortRecord(9)), Rewrite<ParseVersionRecord, WriteVersionRecord>},
      {"receipt", WriteReceipt(SomeReceipt()), Rewrite<ParseReceipt, WriteReceipt>},
      {"head", WriteHeadHint(12), Rewrite<ParseHeadHint, WriteHeadHint>},
      {"tombstones", WriteTombstones(tombstones), Rewrite<ParseTombstones, WriteTombstones>},
      {"anchor", WriteAnchor(anchor), Rewrite<ParseAnchor, WriteAnchor>},
  };
}

// `text` with its first `from` replaced.
std::string With(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(StoreJson, IsReadBack) {
  for (const Format& format : Formats()) {
    const Result<std::string> again = format.rewrite(format.text);
    ASSERT_TRUE(again.ok()) << format.name << ": " << again.status().message();
    EXPECT_EQ(*again, format.text);
    EXPECT_EQ(format.text.find('\n'), format.text.size() - 1);
  }
}

TEST(StoreJson, RefusesOtherFormatsAndNewerOnes) {
  for (const Format& format : Formats()) {
    EXPECT_EQ(format.rewrite(With(format.text, "\"format_version\":1", "\"format_version\":2")).status().code(),
              Code::kUnsupported);
    EXPECT_EQ(format.rewrite(With(format.text, "\"format\":\"xorbit", "\"format\":\"other")).status().code(), Code::kCorrupt);
    EXPECT_TRUE(format.rewrite(With(format.text, "{", "{\"later\":[1],")).ok());
    EXPECT_EQ(format.rewrite(With(format.text, "{", "{\"later\":[1],\"critical\":[\"later\"],")).status().code(),
              Code::kUnsupported);
    for (const Format& other : Formats()) {
      if (other.rewrite == format.rewrite) continue;
      EXPECT_EQ(other.rewrite(format.text).status().code(), Code::kCorrupt);
    }
  }
}

TEST(StoreJson, SurvivesCutsAndFlips) {
  std::mt19937_64 random(TestSeed());
  for (const Format& format : Formats()) {
    for (size_t length = 0; length + 1 < format.text.size(); ++length)
      EXPECT_FALSE(format.rewrite(format.text.substr(0, length)).ok());
    for (int round = 0; round < 2000; ++round) {
      std::string text = format.text;
      for (uint64_t flips = 1 + random() % 3; flips > 0; --flips)
        text[random() % text.size()] ^= static_cast<char>(1U << random() % 7);
      const Result<std::string> result = format.rewrite(text);
      if (!result.ok()) {
        EXPECT_THAT(result.status().message(), Not(HasSubstr("\n")));
        EXPECT_LT(result.status().message().size(), 300U);
      }
    }
  }
}

TEST(StoreJson, RefusesWhatCannotBe) {
  const auto error = [](const char* name, std::string_view from, std::string_view to) {
    for (const Format& format : Formats()) {
      if (format.name == std::string_view(name)) return format.rewrite(With(format.text, from, to)).status().message();
    }
    return std::string("no such format");
  };
  EXPECT_THAT(error("commit", "\"parent\":5", "\"parent\":7"), HasSubstr("'parent' must be at most 6"));
  EXPECT_THAT(error("commit", "\"parent\":5,", ""), HasSubstr("'parent' is missing"));
  EXPECT_THAT(error("commit", "\"version\":7", "\"version\":0"), HasSubstr("must not have a 'parent'"));
  EXPECT_THAT(error("commit", "\"version\":7", "\"version\":1000000000000"), HasSubstr("at most 999999999999"));
  EXPECT_THAT(error("commit", "trainer-2", "../x"), HasSubstr("'publication_id' must be 1 to 128 letters"));
  EXPECT_THAT(error("commit", "committed", "perhaps"), HasSubstr("'decision' must be"));
  EXPECT_THAT(error("abort", "\"version\":9", "\"version\":0"), HasSubstr("version 0 cannot be aborted"));
  EXPECT_THAT(error("stream", "run-1", ".run"), HasSubstr("'stream_id' must be"));
  EXPECT_THAT(error("receipt", "\"owner_index\":1", "\"owner_index\":3"), HasSubstr("'owner_index' must be at most 2"));
  EXPECT_THAT(error("receipt", "\"owner_count\":3", "\"owner_count\":0"), HasSubstr("must be at least 1"));
  EXPECT_THAT(error("receipt", "\"target_version\":7", "\"target_version\":5"), HasSubstr("must be above"));
  EXPECT_THAT(error("receipt", "owner-00001", "owner-00002"), HasSubstr("payload: field 'file' must be owner-00001"));
  EXPECT_THAT(error("receipt", "\"sparse\"", "\"brotli\""), HasSubstr("codec"));
  EXPECT_THAT(error("receipt", "{\"owner_index\":2", "{\"owner_index\":4"), HasSubstr("witness 1: field 'owner_index'"));
  EXPECT_THAT(error("head", ":12", ":-1"), HasSubstr("non-negative"));
  EXPECT_THAT(error("tombstones", "[0,2,\"fold\"]", "[0,1,\"a\"]"), HasSubstr("publications do not ascend"));
  EXPECT_THAT(error("tombstones", "[0,2,\"fold\"]", "[2,2,\"fold\"]"), HasSubstr("publication 1: the entry cannot be"));
  EXPECT_THAT(error("tombstones", "[4,9]", "[9,4]"), HasSubstr("anchors do not ascend"));
  EXPECT_THAT(error("anchor", "config.json", "anchor.json"), HasSubstr("'name' must not be anchor.json"));
  EXPECT_THAT(error("anchor", "config.json", "a.safetensors"), HasSubstr("do not ascend"));
  EXPECT_THAT(error("anchor", "config.json", "a/b"), HasSubstr("'name' must be"));
}

TEST(StoreKeys, AreReadBack) {
  const PublicationPlace place{6, 7, "t"};
  EXPECT_EQ(ManifestKey("s", place), "s/v000007/from_v000006/t/manifest.json");
  EXPECT_EQ(ReceiptKey("s", place, 3), "s/v000007/from_v000006/t/receipt-00003.json");
  EXPECT_EQ(AnchorsFolder("s", 1234567), "s/v1234567/full/");
  const std::string key_of_manifest = ManifestKey("s", place);  // what is read back points into it
  const auto placed = ParsePlacedKey("s", key_of_manifest);
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->place, place);
  EXPECT_EQ(placed->file, "manifest.json");
  const std::string key_of_anchor = AnchorsFolder("s", 7) + "1234/anchor.json";
  const auto anchor = ParsePlacedKey("s", key_of_anchor);
  ASSERT_TRUE(anchor);
  EXPECT_EQ(anchor->place, (PublicationPlace{7, 7, ""}));
  EXPECT_TRUE(IsAnchorSeal(anchor->file));
  for (const char* file : {"anchor.json", "1234/config.json", "1234/x/anchor.json", "manifest.json"}) {
    EXPECT_FALSE(IsAnchorSeal(file)) << file;
  }
  for (const char* key : {"s/v7/from_v000006/t/x", "s/v000007/from_v6/t/x", "s/v000007/from_v000007/t/x",
                          "s/v000007/from_v000006/x", "s/v000007/from_v000006/t/x/y", "s/v000007/version.json",
                          "u/v000007/from_v000006/t/x", "s", "", "s/v0000007/from_v000006/t/x", "s/v-00007/from_v000006/t/x",
                          "s/v000007/from_v000006/.t/x", "s/v99999999999999999999/full/x"}) {
    EXPECT_FALSE(ParsePlacedKey("s", key)) << key;
  }
}

TEST(StoreKeys, TellWhatWasDecidedBefore) {
  EXPECT_EQ(DecidedBefore("s", VersionRecordKey("s", 7)), 7U);
  EXPECT_EQ(DecidedBefore("s", ReceiptKey("s", {5, 7, "t"}, 3)), 5U);
  EXPECT_EQ(DecidedBefore("s", ManifestKey("s", {5, 7, "fold"})), 7U);
  EXPECT_EQ(DecidedBefore("s", AnchorsFolder("s", 7) + "1234/config.json"), 7U);
  for (const std::string& key : {StreamInfoKey("s"), HeadKey("s"), TombstonesKey("s", 7), VersionRecordKey("u", 7),
                                 VersionFolder("s", 7) + "other.json", std::string("s/v7/version.json")}) {
    EXPECT_FALSE(DecidedBefore("s", key)) << key;
  }
}

}  // namespace
}  // namespace xorbit
