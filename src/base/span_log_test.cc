// The trace that Chrome and Perfetto read: names of rows, microseconds, and slices that overlap as they did.
#include "base/span_log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace xorbit {
namespace {

TEST(SpanLog, BecomesAChromeTrace) {
  SpanLog log;
  log.Add({"device", "decode", "batch 0", 5'000'000, 7'000'000});
  log.Add({"device", "decode", "batch 1", 7'000'000, 9'500'000});
  log.Add({"device", "XOR", "batch 0", 7'000'500, 9'000'000});
  log.Add({"sampler", "decode", "other process", 4'000'000, 4'000'001});
  const auto trace = nlohmann::json::parse(ChromeTraceOf(log.Take()));
  EXPECT_TRUE(log.Take().empty());
  std::vector<nlohmann::json> slices;
  std::vector<std::string> names;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") slices.push_back(event);
    if (event["ph"] == "M") names.push_back(event["args"]["name"]);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"device", "decode", "XOR", "sampler", "decode"}));
  ASSERT_EQ(slices.size(), 4U);
  EXPECT_EQ(slices[0]["ts"], 1000.0);
  EXPECT_EQ(slices[1]["dur"], 2500.0);
  EXPECT_EQ(slices[0]["tid"], slices[1]["tid"]);
  EXPECT_NE(slices[1]["tid"], slices[2]["tid"]);
  EXPECT_EQ(slices[1]["pid"], slices[2]["pid"]);
  EXPECT_NE(slices[0]["pid"], slices[3]["pid"]);
  EXPECT_LT(slices[2]["ts"], slices[1]["ts"].get<double>() + slices[1]["dur"].get<double>());  // batch 0 under batch 1
  EXPECT_EQ(slices[3]["ts"], 0.0);
}

TEST(SpanLog, OfNothingIsATrace) { EXPECT_TRUE(nlohmann::json::parse(ChromeTraceOf({}))["traceEvents"].empty()); }

}  // namespace
}  // namespace xorbit
