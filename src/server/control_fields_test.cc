// Bodies from whoever reaches the port.
#include "server/control_fields.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/testing/seed.h"

namespace xorbit {
namespace {

constexpr std::string_view kGoodBody =
    R"({"session_id":"s-1","manifest_path":"run/v000002/manifest.json","stream_id":"run","base_version":1,"target_version":2,)"
    R"("participants":[{"identity":{"engine_id":"e","pid":7,"start_ticks":9,"tp_rank":0},"state":"IDLE"}],"flush_cache":true,)"
    R"("weight_version":{"min_version":1},"something_else":[1,[2,{"a":3}]]})";

TEST(ControlFieldsTest, ReadsWhatFrameworksSend) {
  const auto fields = ParseControlFields(kGoodBody, "");
  ASSERT_TRUE(fields.ok()) << fields.status().message();
  EXPECT_EQ(fields->session_id, "s-1");
  EXPECT_EQ(fields->manifest_path, "run/v000002/manifest.json");
  EXPECT_EQ(fields->base_version, 1U);
  EXPECT_EQ(fields->target_version, 2U);
  ASSERT_EQ(fields->participants.size(), 1U);
  EXPECT_EQ(fields->participants[0].pid, 7U);
  EXPECT_EQ(fields->participants[0].start_ticks, 9U);
  EXPECT_EQ(fields->min_version, 1U);
  EXPECT_EQ(fields->exact_version, std::nullopt);

  EXPECT_TRUE(ParseControlFields(R"({"target_version":"latest"})", "")->wants_latest);
  EXPECT_EQ(ParseControlFields(R"({"target_version":"12"})", "")->target_version, 12U);
  EXPECT_EQ(ParseControlFields("", "mode=keep")->mode, "keep");
  EXPECT_EQ(ParseControlFields(R"({"mode":"abort"})", "mode=keep")->mode, "abort");
  EXPECT_TRUE(ParseControlFields(R"({"weight_version":"7","manifest_path":null})", "").ok());
}

TEST(ControlFieldsTest, RefusesOtherTypes) {
  for (const std::string_view body : {
           "[]",
           "7",
           "{",
           "{}{}",
           R"({"session_id":7})",
           R"({"session_id":["s"]})",
           R"({"base_version":-1})",
           R"({"base_version":1.5})",
           R"({"base_version":"1"})",
           R"({"target_version":"newest"})",
           R"({"target_version":""})",
           R"({"target_version":99999999999999999999})",
           R"({"keep_pause":1})",
           R"({"flush_cache":"yes"})",
           R"({"release_state":0})",
           R"({"validate_payload_hash":"no"})",
           R"({"participants":{}})",
           R"({"participants":[1]})",
           R"({"participants":[{}]})",
           R"({"participants":[{"identity":{"pid":1}}]})",
           R"({"weight_version":{"min_version":"1"}})",
           R"({"session_id":"a","session_id":"b"})",
           "[[[[[[[[[[[[[[[[[[[[",
       }) {
    EXPECT_EQ(ParseControlFields(body, "").status().code(), Code::kCorrupt) << body;
  }
  EXPECT_FALSE(ParseControlFields("{\"session_id\":\"" + std::string(5'000, 'a') + "\"}", "").ok());
}

TEST(ControlFieldsTest, RandomBytesAreReadOrRefused) {
  std::mt19937_64 random(TestSeed());
  size_t accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string body(kGoodBody);
    for (uint64_t flips = random() % 3; flips > 0; --flips) body[random() % body.size()] = static_cast<char>(random());
    if (random() % 4 == 0) body.resize(random() % body.size());
    const auto fields = ParseControlFields(body, "");
    accepted += fields.ok() ? 1 : 0;
    EXPECT_EQ(fields.ok(), fields.status().message().empty());
  }
  EXPECT_GT(accepted, 0U);
}

}  // namespace
}  // namespace xorbit
