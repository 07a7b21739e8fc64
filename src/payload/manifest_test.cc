// The manifest field by field: round trips, the exact text, and every lie refused.
#include "payload/manifest.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "payload/payload_test_util.h"

namespace xorbit {
namespace {

using namespace testing_payload;  // NOLINT(google-build-using-namespace): helpers made for these tests
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

StreamIdentity SomeStream() {
  StreamIdentity stream;
  stream.stream_id = "run-7";
  stream.base_fingerprint = Sha256Of({});
  stream.base_version = 6;
  stream.target_version = 7;
  stream.publication_id = "0123abcd";
  return stream;
}

std::string ErrorOf(std::string_view text) {
  const auto manifest = ParseManifest(text);
  return manifest.ok() ? "" : manifest.status().message();
}

TEST(Manifest, RoundTrips) {
  for (const bool has_digests : {true, false}) {
    Manifest manifest = MakeDelta(3, has_digests).manifest;
    if (has_digests) manifest.stream = SomeStream();
    const std::string text = WriteManifest(manifest);
    EXPECT_EQ(text, WriteManifest(manifest));
    const auto parsed = ParseManifest(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(WriteManifest(*parsed), text);
    EXPECT_EQ(parsed->has_digests, has_digests);
    EXPECT_EQ(parsed->owners.size(), 3U);
    EXPECT_EQ(parsed->change_count, manifest.change_count);
    EXPECT_EQ(parsed->base, manifest.base);
    EXPECT_EQ(parsed->target, manifest.target);
    EXPECT_EQ(parsed->stream.has_value(), has_digests);
    if (has_digests) {
      EXPECT_EQ(parsed->stream->target_version, 7U);
    }
  }
}

TEST(Manifest, TextIsThatOfThePage) {
  Manifest manifest;
  manifest.base = {1, 2};
  manifest.target = {1, 2};
  manifest.total_bytes = 10;
  manifest.owners.push_back({PayloadFileName(0, {}), 112, 112, 0, {}, {}, {}});
  const std::string zeros(64, '0');
  EXPECT_EQ(
      WriteManifest(manifest),
      R"({"format":"xorbit-delta","format_version":1,"layout_digest":")" + zeros +
          R"(","codec":"sparse","has_digests":true,"base_digest":"00000000000000010000000000000002",)"
          R"("target_digest":"00000000000000010000000000000002","change_count":0,"total_bytes":10,"owners":[)"
          R"({"file":"owner-00000-0000000000000000.xob","byte_count":112,"head_byte_count":112,"change_count":0,"sha256":")" +
          zeros + R"(","head_sha256":")" + zeros + R"(","change_digest":"00000000000000000000000000000000"}]})" + "\n");
  EXPECT_TRUE(ParseManifest(WriteManifest(manifest)).ok());
}

TEST(Manifest, FileNames) {
  Sha256Digest digest{};
  digest[0] = 0xab;
  EXPECT_EQ(PayloadFileName(7, digest), "owner-00007-ab00000000000000.xob");
  EXPECT_EQ(PayloadFileName(1048575, digest), "owner-1048575-ab00000000000000.xob");
}

TEST(Manifest, SealRefusesWhatDoesNotBelongTogether) {
  MadeUpDelta delta = MakeDelta(2);
  EXPECT_EQ(SealManifest(delta.layout, {}, {}, {}).status().code(), Code::kUsage);
  EXPECT_EQ(SealManifest(delta.layout, delta.payloads, delta.manifest.base, delta.manifest.base).status().code(), Code::kUsage);
  std::swap(delta.payloads[0], delta.payloads[1]);
  EXPECT_EQ(SealManifest(delta.layout, delta.payloads, delta.manifest.base, delta.manifest.target).status().code(),
            Code::kUsage);
}

// One field changed at a time.
TEST(Manifest, RefusesFieldByField) {
  Manifest manifest = MakeDelta(2).manifest;
  manifest.stream = SomeStream();
  const std::string good = WriteManifest(manifest);
  const auto with = [&](const std::function<void(Json&)>& change) {
    Json json = Json::parse(good);
    change(json);
    return ErrorOf(json.dump());
  };
  ASSERT_EQ(with([](Json&) {}), "");
  for (const std::string key : {"format", "format_version", "layout_digest", "codec", "has_digests", "base_digest",
                                "target_digest", "change_count", "total_bytes", "owners"}) {
    EXPECT_THAT(with([&](Json& json) { json.erase(key); }), HasSubstr("field '" + key + "' is missing"));
    EXPECT_NE(with([&](Json& json) { json[key] = nullptr; }), "") << key;
    EXPECT_NE(with([&](Json& json) { json[key] = 1.5; }), "") << key;
  }
  for (const std::string key :
       {"file", "byte_count", "head_byte_count", "change_count", "sha256", "head_sha256", "change_digest"}) {
    EXPECT_EQ(with([&](Json& json) { json["owners"][1].erase(key); }), "owner 1: field '" + key + "' is missing");
    EXPECT_NE(with([&](Json& json) { json["owners"][1][key] = false; }), "") << key;
  }
  for (const std::string key : {"stream_id", "base_fingerprint", "base_version", "target_version", "publication_id"}) {
    EXPECT_EQ(with([&](Json& json) { json["stream"].erase(key); }), "stream: field '" + key + "' is missing");
    EXPECT_NE(with([&](Json& json) { json["stream"][key] = Json::array(); }), "") << key;
  }
  EXPECT_THAT(with([](Json& json) { json["format_version"] = 2; }), HasSubstr("format version 2"));
  EXPECT_THAT(with([](Json& json) { json["codec"] = "middle-out"; }), HasSubstr("codec"));
  EXPECT_THAT(with([](Json& json) { json["change_count"] = 1; }), HasSubstr("do not add up"));
  EXPECT_THAT(with([](Json& json) { json["owners"] = Json::array(); }), HasSubstr("1 to 16384"));
  EXPECT_THAT(with([](Json& json) { json["owners"].erase(1); }), HasSubstr("do not add up"));
  EXPECT_THAT(with([](Json& json) { std::swap(json["owners"][0], json["owners"][1]); }),
              HasSubstr("field 'file' must be owner-00000-"));
  EXPECT_THAT(with([](Json& json) { json["owners"][0]["file"] = "../../etc/passwd"; }), HasSubstr("field 'file' must be"));
  EXPECT_THAT(with([](Json& json) { json["owners"][0]["head_byte_count"] = 104; }), HasSubstr("impossible"));
  EXPECT_THAT(with([](Json& json) { json["owners"][0]["head_byte_count"] = UINT64_MAX; }), HasSubstr("at most"));
  EXPECT_THAT(with([](Json& json) { json["owners"][0]["change_count"] = UINT64_MAX; }), HasSubstr("do not add up"));
  EXPECT_THAT(with([](Json& json) { json["owners"][0]["change_digest"] = std::string(32, '0'); }),
              HasSubstr("'target_digest' - 'base_digest'"));
  EXPECT_THAT(with([](Json& json) { json["has_digests"] = false; }), HasSubstr("without digests"));
  EXPECT_THAT(with([](Json& json) { json["layout_digest"] = std::string(64, 'A'); }), HasSubstr("layout_digest"));
  EXPECT_THAT(with([](Json& json) { json["stream"]["stream_id"] = "../run"; }), HasSubstr("stream_id"));
  EXPECT_THAT(with([](Json& json) { json["stream"]["publication_id"] = ""; }), HasSubstr("publication_id"));
  EXPECT_THAT(with([](Json& json) { json["stream"]["base_version"] = 7; }), HasSubstr("must differ"));
}

TEST(Manifest, FieldsOfLaterVersionsMatterOnlyWhenCritical) {
  Json json = Json::parse(WriteManifest(MakeDelta(1).manifest));
  json["later"] = {{"deep", {1, 2, {{"deeper", 3}}}}};
  json["owners"][0]["later"] = 1;
  EXPECT_EQ(ErrorOf(json.dump()), "");
  Json critical = json;
  critical["critical"] = {"codec", "later"};
  EXPECT_EQ(ParseManifest(critical.dump()).status().code(), Code::kUnsupported);
  critical["critical"] = {"codec"};
  EXPECT_EQ(ErrorOf(critical.dump()), "");
  critical["owners"][0]["critical"] = {"later"};
  EXPECT_EQ(ParseManifest(critical.dump()).status().code(), Code::kUnsupported);
}

TEST(Manifest, RepeatedKeysAreRefused) {
  std::string text = WriteManifest(MakeDelta(1).manifest);
  text.insert(1, R"("codec":"zstd",)");
  EXPECT_THAT(ErrorOf(text), HasSubstr("repeats a key"));
}

// The manifest itself has no hash beside a hand-made delta. What can change without a parse error here (another hash, another
// size) is caught by the payloads: delta_folder_test.cc. Here: no crash, and nothing becomes the same manifest.
TEST(Manifest, EveryTruncationAndFlippedBitIsRefusedOrAnotherManifest) {
  Manifest manifest = MakeDelta(2).manifest;
  manifest.stream = SomeStream();
  const std::string good = WriteManifest(manifest);
  for (size_t byte_count = 0; byte_count + 1 < good.size(); ++byte_count)
    EXPECT_NE(ErrorOf(good.substr(0, byte_count)), "") << byte_count;
  std::string text = good;
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    const auto parsed = ParseManifest(text);
    if (parsed.ok() && bit / 8 + 1 < text.size()) {
      // Only the name of an optional field can be lost silently: "stream" and "critical".
      const bool lost_stream = !parsed->stream.has_value();
      EXPECT_TRUE(lost_stream || WriteManifest(*parsed) != good) << "bit " << bit;
    }
    text[bit / 8] = good[bit / 8];
  }
}

}  // namespace
}  // namespace xorbit
