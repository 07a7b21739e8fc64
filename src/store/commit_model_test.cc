// Every state of the commit protocol, and that the model can fail: each broken protocol must be caught, for the right reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "base/testing/seed.h"
#include "store/testing/commit_model.h"

namespace xorbit {
namespace {

using ::testing::HasSubstr;

std::string TextOf(const std::vector<std::string>& trace) {
  std::string text;
  for (const std::string& step : trace) text += "\n  " + step;
  return text;
}

TEST(CommitModel, NoReachableStateIsWrong) {
  if (kIsSanitized) GTEST_SKIP() << "the release build searches it";
  const ModelResult result = Explore(Mutant::kNone, /*late_limit=*/1);
  std::printf(
      "commit protocol: %llu states, %llu steps; version 1 got by the first trainer in %llu, by the second in %llu, by the "
      "restarted first in %llu, by nobody in %llu\n",
      static_cast<unsigned long long>(result.state_count), static_cast<unsigned long long>(result.transition_count),
      static_cast<unsigned long long>(result.first_version_winners[0]),
      static_cast<unsigned long long>(result.first_version_winners[1]),
      static_cast<unsigned long long>(result.first_version_winners[2]),
      static_cast<unsigned long long>(result.first_version_winners[3]));
  EXPECT_EQ(result.violation, "") << TextOf(result.trace);
  for (const uint64_t count : result.first_version_winners) EXPECT_GT(count, 0U);  // nothing is ruled out by accident
}

TEST(CommitModel, EveryBrokenProtocolIsCaught) {
  const std::pair<Mutant, const char*> mutants[] = {
      {Mutant::kRecordOverwrites, "readers see two contents"},
      {Mutant::kRecordBeforeManifest, "has no manifest"},
      {Mutant::kReceiptBeforePayload, "lacks a payload"},
      {Mutant::kSealsEarly, "lacks a payload"},
      {Mutant::kBaselineBeforeDecision, "before its version was decided"},
      {Mutant::kReusedNames, "not the one that was sealed"},
      {Mutant::kLostReplyIsLoss, "believes that it lost"},
      {Mutant::kCollectsUndecided, "has no manifest"},
  };
  EXPECT_EQ(std::size(mutants) + 1, kMutantCount);
  for (const auto& [mutant, why] : mutants) {
    const ModelResult result = Explore(mutant, /*late_limit=*/1);
    EXPECT_THAT(result.violation, HasSubstr(why)) << NameOf(mutant);
    std::printf("%s: caught after %llu states, %zu steps from the start\n", NameOf(mutant).c_str(),
                static_cast<unsigned long long>(result.state_count), result.trace.size());
  }
}

}  // namespace
}  // namespace xorbit
