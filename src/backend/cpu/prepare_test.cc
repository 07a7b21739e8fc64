// Prepare, apply, retry and undo against the plain oracle: random models, owners, codecs and live memory, there and back.
#include "backend/cpu/prepare.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/update_test_util.h"
#include "base/testing/seed.h"
#include "tensor/random_live_memory.h"

namespace xorbit {
namespace {

// The forms in which an update may wait.
const PrepareOptions kForms[] = {{.threads = 2, .localise_budget_bytes = 0},
                                 {.threads = 2, .keep_undo_log = true},
                                 {.threads = 2, .localise_budget_bytes = uint64_t{1} << 30},
                                 {.threads = 1, .localise_budget_bytes = 300}};

class PrepareTest : public testing::TestWithParam<CodecId> {
 protected:
  // Runs body(random, update) for some updates.
  template <typename Body>
  void ForUpdates(uint64_t count, Body&& body) {
    if (GetParam() != CodecId::kSparse) count /= 4;  // what follows the decoder is the same
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t seed = TestSeed() + i;
      SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(seed));
      Random random(seed);
      const RandomUpdate update(random, *backend_, GetParam(), i % 8 == 0 ? 20'000 : 2'000);
      body(random, update);
      if (HasFatalFailure()) return;
    }
  }

  std::unique_ptr<PreparedUpdate> Prepare(const RandomUpdate& update, const LiveMemory& live, const PrepareOptions& options) {
    auto prepared = backend_->Prepare(update.layout, update.encoded->payloads(), live, options);
    EXPECT_TRUE(prepared.ok()) << prepared.status().message();
    return prepared.ok() ? std::move(prepared).value() : nullptr;
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
};

TEST_P(PrepareTest, GoesThereAndBackOnAnyMemory) {
  ForUpdates(16, [&](Random& random, const RandomUpdate& update) {
    RandomCohort cohort(random, update.layout, 1);
    RandomLiveMemory& live = *cohort.ranks.front();
    live.Fill(update.after.bytes());
    const Buffer there = live.Snapshot();
    live.Fill(update.before.bytes());
    const Buffer here = live.Snapshot();
    for (const PrepareOptions& form : kForms) {
      PrepareOptions options = form;
      const auto forward = Prepare(update, live.memory(), options);
      ASSERT_NE(forward, nullptr);
      EXPECT_EQ(live.Snapshot(), here);
      EXPECT_EQ(forward->report().change_count, update.encoded->change_count());
      EXPECT_EQ(forward->report().change, update.encoded->change());
      ASSERT_TRUE(forward->Apply().ok());
      EXPECT_EQ(live.Snapshot(), there);
      EXPECT_EQ(forward->Apply().code(), options.keep_undo_log ? Code::kOk : Code::kUsage);
      EXPECT_EQ(live.Snapshot(), there);
      ASSERT_TRUE(forward->Undo().ok());
      ASSERT_TRUE(forward->Undo().ok());
      EXPECT_EQ(live.Snapshot(), here);
      ASSERT_TRUE(forward->Apply().ok());
      options.direction = Direction::kInverse;
      const auto back = Prepare(update, live.memory(), options);
      ASSERT_NE(back, nullptr);
      EXPECT_EQ(back->report().change, StateDigest{} - update.encoded->change());
      ASSERT_TRUE(back->Apply().ok());
      EXPECT_EQ(live.Snapshot(), here);
    }
  });
}

TEST_P(PrepareTest, SumsOfPartialRanksAddUpToTheRecords) {
  ForUpdates(16, [&](Random& random, const RandomUpdate& update) {
    RandomCohort cohort(random, update.layout, Between(random, 2, 4));
    cohort.Fill(update.after);
    std::vector<Buffer> there;
    for (const auto& rank : cohort.ranks) there.push_back(rank->Snapshot());
    cohort.Fill(update.before);
    PrepareOptions options = kForms[random() % std::size(kForms)];
    options.partial = true;
    StateDigest change;
    std::vector<std::vector<RecordSums>> sums;
    for (size_t i = 0; i < cohort.ranks.size(); ++i) {
      const auto prepared = Prepare(update, cohort.ranks[i]->memory(), options);
      ASSERT_NE(prepared, nullptr);
      change += prepared->report().change;
      if (i == 0) sums.resize(prepared->report().sums.size());
      for (size_t p = 0; p < sums.size(); ++p) {
        const std::vector<RecordSums>& more = prepared->report().sums[p];
        sums[p].resize(more.size());
        for (size_t r = 0; r < more.size(); ++r) sums[p][r] += more[r];
      }
      ASSERT_TRUE(prepared->Apply().ok());
      EXPECT_EQ(cohort.ranks[i]->Snapshot(), there[i]);
    }
    EXPECT_EQ(change, update.encoded->change());
    EXPECT_EQ(sums, update.encoded->RecordSumsOf(*backend_));
  });
}

TEST_P(PrepareTest, RefusesAnotherBaseAndOtherEpochs) {
  ForUpdates(12, [&](Random& random, const RandomUpdate& update) {
    if (update.encoded->change_count() == 0) return;
    RandomCohort cohort(random, update.layout, 1);
    RandomLiveMemory& live = *cohort.ranks.front();
    live.Fill(update.after.bytes());  // as if the delta had been applied already: the second time must not pass
    const Buffer untouched = live.Snapshot();
    for (const PrepareOptions& options : kForms) {
      EXPECT_EQ(backend_->Prepare(update.layout, update.encoded->payloads(), live.memory(), options).status().code(),
                Code::kRefused);
    }
    EXPECT_EQ(live.Snapshot(), untouched);
    live.Fill(update.before.bytes());
    const Buffer before = live.Snapshot();
    for (const PrepareOptions& options : kForms) {
      const auto prepared = Prepare(update, live.memory(), options);
      ASSERT_NE(prepared, nullptr);
      LiveMapSpec moved = RandomLiveMap(random, update.layout).spec();
      LiveMap old_map = live.map();
      live.map() = LiveMap::Make(update.layout, std::move(moved)).value();
      EXPECT_EQ(prepared->Apply().code(), Code::kRefused);
      EXPECT_EQ(live.Snapshot(), before);
      live.map() = std::move(old_map);
      EXPECT_TRUE(prepared->Apply().ok());
      EXPECT_TRUE(prepared->Undo().ok());
    }
  });
}

// Somebody else wrote into an element that the update changes, between pre-flight and apply.
TEST_P(PrepareTest, LeavesLiveAloneWhenItFindsAnotherValue) {
  ForUpdates(12, [&](Random& random, const RandomUpdate& update) {
    if (update.encoded->change_count() == 0) return;
    RandomCohort cohort(random, update.layout, 1);
    RandomLiveMemory& live = *cohort.ranks.front();
    live.Fill(update.after.bytes());
    const Buffer there = live.Snapshot();
    live.Fill(update.before.bytes());
    const Buffer here = live.Snapshot();
    for (const PrepareOptions& options : kForms) {
      const auto prepared = Prepare(update, live.memory(), options);
      ASSERT_NE(prepared, nullptr);
      const auto [victim, foreign] = ForeignValue(random, &live, here, there);
      const uint8_t was = std::exchange(*victim, foreign);
      const Buffer flipped = live.Snapshot();
      EXPECT_EQ(prepared->Apply().code(), Code::kRefused);
      EXPECT_EQ(live.Snapshot(), flipped);
      *victim = was;
      EXPECT_TRUE(prepared->Apply().ok());
      EXPECT_EQ(live.Snapshot(), there);
      EXPECT_TRUE(prepared->Undo().ok());
    }
  });
}

// With an undo log an interruption at any store leaves old and new values mixed; retry and undo must both mend that.
TEST_P(PrepareTest, MendsAnyInterruptionFromTheUndoLog) {
  ForUpdates(12, [&](Random& random, const RandomUpdate& update) {
    RandomCohort cohort(random, update.layout, 1);
    RandomLiveMemory& live = *cohort.ranks.front();
    live.Fill(update.after.bytes());
    const Buffer there = live.Snapshot();
    live.Fill(update.before.bytes());
    const Buffer here = live.Snapshot();
    const auto prepared = Prepare(update, live.memory(), {.threads = 2, .keep_undo_log = true});
    ASSERT_NE(prepared, nullptr);
    for (int round = 0; round < 4; ++round) {
      RandomTensors torn = update.before;
      torn.Mix(random, update.layout, update.after);
      live.Fill(torn.bytes());
      ASSERT_TRUE(round % 2 == 0 ? prepared->Apply().ok() : prepared->Undo().ok());
      EXPECT_EQ(live.Snapshot(), round % 2 == 0 ? there : here);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Codecs, PrepareTest,
                         testing::Values(CodecId::kSparse, CodecId::kSnappy, CodecId::kLz4, CodecId::kSnappyZstd,
                                         CodecId::kLz4Zstd, CodecId::kZstd),
                         [](const auto& codec) {
                           std::string name(FindCodec(codec.param)->name());
                           std::replace(name.begin(), name.end(), '+', '_');
                           return name;
                         });

}  // namespace
}  // namespace xorbit
