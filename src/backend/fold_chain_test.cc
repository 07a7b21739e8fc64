// Chains folded over live memory: random models, owners, codecs and memories, forward and back, whole and in ranks.
#include "backend/fold_chain.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/update_test_util.h"
#include "base/testing/seed.h"

namespace xorbit {
namespace {

// States of one random model and the deltas between them, each with owners and a codec of its own.
struct Chain {
  Chain(Random& random, const Backend& backend, uint64_t max_elements) : layout(RandomLayout(random, 8, max_elements)) {
    states.emplace_back(random, layout);
    const uint64_t step_count = Between(random, 1, 4);
    for (uint64_t i = 0; i < step_count; ++i) {
      states.push_back(states.back());
      states.back().Mutate(random, layout, Between(random, 0, 2) * 150 + 1);
      // Now and then back to where it began, so that all changes cancel, or half of them.
      if (i + 1 == step_count && Between(random, 0, 3) == 0) states.back() = states.front();
      if (i + 1 == step_count && Between(random, 0, 3) == 0) states.back().Mix(random, layout, states.front());
      owners.push_back(RandomOwners(random, layout));
      const auto codecs = AllCodecs();
      const CodecId codec = codecs[Between(random, 0, codecs.size() - 1)]->id();
      deltas.push_back(std::make_unique<EncodedUpdate>(backend, layout, owners.back(), states[i], states[i + 1], codec));
      steps.push_back({"step " + std::to_string(i), deltas.back()->payloads()});
    }
  }
  uint64_t change_count() const {
    uint64_t count = 0;
    for (const auto& delta : deltas) count += delta->change_count();
    return count;
  }

  Layout layout;
  std::vector<RandomTensors> states;
  std::vector<std::vector<std::vector<SegmentMap>>> owners;
  std::vector<std::unique_ptr<EncodedUpdate>> deltas;
  std::vector<FoldStep> steps;
};

class FoldChainTest : public testing::Test {
 protected:
  // Runs body(random, chain) for some chains.
  template <typename Body>
  void ForChains(uint64_t count, Body&& body) {
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t seed = TestSeed() + i;
      SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(seed));
      Random random(seed);
      const Chain chain(random, *backend_, i % 8 == 0 ? 150'000 : 2'000);
      body(random, chain);
      if (HasFatalFailure()) return;
    }
  }

  // Folds and applies; what the fold reported.
  FoldedUpdate Follow(const Chain& chain, const LiveMemory& live, const FoldOptions& options) {
    auto folded = FoldChain(*backend_, chain.layout, chain.steps, live, options);
    EXPECT_TRUE(folded.ok()) << folded.status().message();
    if (!folded.ok()) return {};
    const auto prepared = backend_->Prepare(chain.layout, folded->payloads, live, {.threads = 2, .partial = options.partial});
    EXPECT_TRUE(prepared.ok()) << prepared.status().message();
    if (prepared.ok()) {
      EXPECT_TRUE((*prepared)->Apply().ok());
    }
    return std::move(folded).value();
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
};

TEST_F(FoldChainTest, EqualsTheDirectDiffByteForByte) {
  ForChains(24, [&](Random& /*random*/, const Chain& chain) {
    const LiveMap map = CanonicalMap(chain.layout);
    const std::vector<MutableBytes> live = ReadOnlyRegions(chain.states.front().bytes());
    const auto folded = FoldChain(*backend_, chain.layout, chain.steps, {&map, live, {}}, {.threads = 2});
    ASSERT_TRUE(folded.ok()) << folded.status().message();
    const EncodedUpdate direct(*backend_, chain.layout, chain.owners.front(), chain.states.front(), chain.states.back(),
                               CodecId::kSparse);
    ASSERT_EQ(folded->files.size(), chain.owners.front().size());
    for (size_t i = 0; i < folded->files.size(); ++i) EXPECT_EQ(folded->files[i], direct.file(i));
  });
}

TEST_F(FoldChainTest, LeadsThereAndBackOnAnyMemory) {
  ForChains(24, [&](Random& random, const Chain& chain) {
    RandomCohort cohort(random, chain.layout, 1);
    RandomLiveMemory& live = *cohort.ranks.front();
    live.Fill(chain.states.back().bytes());
    const Buffer there = live.Snapshot();
    live.Fill(chain.states.front().bytes());
    const Buffer here = live.Snapshot();
    Follow(chain, live.memory(), {.threads = 2});
    EXPECT_EQ(live.Snapshot(), there);
    Follow(chain, live.memory(), {.threads = 1, .direction = Direction::kInverse});
    EXPECT_EQ(live.Snapshot(), here);
  });
}

TEST_F(FoldChainTest, SumsOfPartialRanksAddUpToTheRecords) {
  ForChains(16, [&](Random& random, const Chain& chain) {
    RandomCohort cohort(random, chain.layout, Between(random, 2, 4));
    cohort.Fill(chain.states.back());
    const auto there = cohort.Snapshot();
    cohort.Fill(chain.states.front());
    std::vector<std::vector<std::vector<RecordSums>>> sums;
    for (auto& rank : cohort.ranks) {
      const FoldedUpdate folded = Follow(chain, rank->memory(), {.threads = 2, .partial = true});
      sums.resize(folded.sums.size());
      for (size_t s = 0; s < sums.size(); ++s) {
        sums[s].resize(folded.sums[s].size());
        for (size_t p = 0; p < sums[s].size(); ++p) {
          sums[s][p].resize(folded.sums[s][p].size());
          for (size_t r = 0; r < sums[s][p].size(); ++r) sums[s][p][r] += folded.sums[s][p][r];
        }
      }
    }
    EXPECT_EQ(cohort.Snapshot(), there);
    for (size_t s = 0; s < sums.size(); ++s) EXPECT_EQ(sums[s], chain.deltas[s]->RecordSumsOf(*backend_));
  });
}

// A live element of another value than some delta of the chain meets.
TEST_F(FoldChainTest, RefusesLiveMemoryThatTheChainDoesNotStartFrom) {
  ForChains(24, [&](Random& random, const Chain& chain) {
    if (chain.deltas.front()->change_count() == 0) return;
    RandomCohort cohort(random, chain.layout, 1);
    RandomLiveMemory& live = *cohort.ranks.front();
    live.Fill(chain.states.back().bytes());
    const Buffer there = live.Snapshot();
    live.Fill(chain.states[1].bytes());
    const Buffer next = live.Snapshot();
    live.Fill(chain.states.front().bytes());
    const auto [victim, foreign] = ForeignValue(random, &live, live.Snapshot(), next);
    const uint8_t was = std::exchange(*victim, foreign);
    const auto folded = FoldChain(*backend_, chain.layout, chain.steps, live.memory(), {.threads = 2});
    if (folded.ok()) {
      // A shadow's cast or a replica is not where values are read. Prepare compares those, unless its changes have cancelled:
      // then nobody touches it.
      const auto prepared = backend_->Prepare(chain.layout, folded->payloads, live.memory(), {});
      if (!prepared.ok()) {
        EXPECT_EQ(prepared.status().code(), Code::kRefused);
        return;
      }
      ASSERT_TRUE((*prepared)->Apply().ok());
      EXPECT_EQ(std::exchange(*victim, was), foreign);
      EXPECT_EQ(live.Snapshot(), there);
      return;
    }
    EXPECT_EQ(folded.status().code(), Code::kRefused);
    EXPECT_EQ(folded.status().message().substr(0, 8), "step 0: ");
  });
}

// Bytes of payloads that do not decode must not go unnoticed, and live memory must not change, whatever they say.
TEST_F(FoldChainTest, NamesTheDeltaThatDoesNotDecode) {
  ForChains(16, [&](Random& random, const Chain& chain) {
    RandomCohort cohort(random, chain.layout, 1);
    RandomLiveMemory& live = *cohort.ranks.front();
    live.Fill(chain.states.front().bytes());
    const Buffer here = live.Snapshot();
    const size_t step = Between(random, 0, chain.steps.size() - 1);
    std::vector<PayloadView> payloads(chain.steps[step].payloads.begin(), chain.steps[step].payloads.end());
    PayloadView& payload = payloads[Between(random, 0, payloads.size() - 1)];
    if (payload.body.empty()) return;
    Buffer damaged(payload.body.begin(), payload.body.end());
    damaged[Between(random, 0, damaged.size() - 1)] ^= static_cast<uint8_t>(1 << Between(random, 0, 7));
    for (PayloadSegment& segment : payload.segments) {
      const auto offset = static_cast<size_t>(segment.view.body.data() - payload.body.data());
      if (!segment.view.body.empty()) segment.view.body = ConstBytes(damaged).subspan(offset, segment.view.body.size());
    }
    std::vector<FoldStep> steps = chain.steps;
    steps[step].payloads = payloads;
    const auto folded = FoldChain(*backend_, chain.layout, steps, live.memory(), {.threads = 2});
    EXPECT_EQ(live.Snapshot(), here);
    ASSERT_FALSE(folded.ok());
    EXPECT_EQ(folded.status().message().substr(0, 5), "step ");
  });
}

}  // namespace
}  // namespace xorbit
