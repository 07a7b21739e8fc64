// A sampler that starts with its base checkpoint and is taken to a late version by deltas that are several times as large as
// what may be staged: every codec, any live map, both directions, and every kind of damage.
#include "receive/start_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/testing/seed.h"
#include "receive/receiver.h"
#include "receive/testing/live_stream.h"
#include "tensor/tensor_test_util.h"
#include "transport/testing/memory_store.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// 18 MiB in all units, of one of them in several tensors.
Layout StartLayout() {
  std::vector<TensorSpec> tensors = {Tensor("a", Dtype::kBF16, {2, 1024, 1024}), Tensor("c", Dtype::kF32, {1024, 1024}),
                                     Tensor("d", Dtype::kF64, {1024, 256, 2}), Tensor("e.frozen", Dtype::kI64, {9}, 0, true)};
  for (uint64_t i = 0; i < 12; ++i) tensors.push_back(Tensor("b" + std::to_string(i), Dtype::kU8, {kMiB / 2 + 5 * i}));
  return MakeLayout(std::move(tensors));
}

// A stream whose version 1 differs from its base in half of all elements.
class Started {
 public:
  Started(Random& random, CodecId codec) : made_(random, *backend_, store_, 1, StartLayout(), {500}) {
    made_.SetCodec(codec, {.frame_bytes = 64 << 10});
    made_.Publish();
    engine_ = std::make_unique<WatchingEngine>(random, made_, std::move(RandomRanks(random, made_.layout(), 1).front()), 0);
  }

  Result<StartUpReport> Go(uint64_t from, uint64_t to, uint64_t limit_bytes) {
    return StartUp(made_.stream(), *backend_, engine_->memory(), from, to, {.threads = 3, .staging_limit_bytes = limit_bytes});
  }
  // What a receiver proves before anybody reads.
  Status Attach(uint64_t version) {
    const std::unique_ptr<CohortMember> alone = AloneMember();
    return Receiver::Attach(made_.stream(), *backend_, engine_->memory(), *engine_, *alone, {}, version).status();
  }
  // Changes a byte somewhere in the middle of a payload.
  void Damage() {
    const std::vector<ObjectInfo> objects = store_.List("").value();
    for (const ObjectInfo& object : objects) {
      if (!object.key.ends_with(".xob")) continue;
      store_.Corrupt(object.key, [](Buffer* bytes) { (*bytes)[bytes->size() / 2] ^= 0x10; });
      return;
    }
  }
  WatchingEngine& engine() { return *engine_; }

 private:
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  MemoryStore store_;
  LiveStream made_;
  std::unique_ptr<WatchingEngine> engine_;
};

struct Case {
  CodecId codec;
  uint64_t limit_bytes;
};
constexpr Case kCases[] = {{CodecId::kSparse, 700 << 10}, {CodecId::kLz4Zstd, 4 * kMiB}, {CodecId::kZstd, 2 * kMiB}};

TEST(StartUp, StagesNoMoreThanAllowedThereAndBack) {
  SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(TestSeed()));
  Random random(TestSeed());
  for (const Case& one : kCases) {
    SCOPED_TRACE(FindCodec(one.codec)->name());
    Started started(random, one.codec);
    for (const uint64_t to : {1, 0}) {
      const auto report = started.Go(1 - to, to, one.limit_bytes);
      ASSERT_TRUE(report.ok()) << report.status().message();
      EXPECT_LE(report->most_staged_bytes, one.limit_bytes);
      EXPECT_GT(report->payload_bytes, one.limit_bytes);
      EXPECT_GE(report->fetched_bytes, report->payload_bytes);
      EXPECT_GT(report->group_count, 2U);
      EXPECT_TRUE(started.engine().Holds(to));
    }
    ASSERT_TRUE(started.Go(0, 1, one.limit_bytes).ok());
    EXPECT_TRUE(started.Attach(1).ok());
    EXPECT_EQ(started.engine().wrong_count(), 0U);
  }
}

TEST(StartUp, RefusesALimitThatNothingFitsIn) {
  Random random(TestSeed());
  Started started(random, CodecId::kLz4Zstd);
  const Status refused = started.Go(0, 1, 1 << 20).status();
  EXPECT_EQ(refused.code(), Code::kRefused);
  EXPECT_THAT(refused.message(), HasSubstr("raise the limit"));
  EXPECT_TRUE(started.engine().Holds(0));
}

TEST(StartUp, RefusesWeightsThatAreNotTheBase) {
  Random random(TestSeed());
  Started started(random, CodecId::kSparse);
  *started.engine().ChangingByte(0, 1) ^= 1;
  EXPECT_EQ(started.Go(0, 1, kMiB).status().code(), Code::kRefused);
}

TEST(StartUp, ADamagedChunkIsFoundBeforeItIsApplied) {
  Random random(TestSeed());
  for (const CodecId codec : {CodecId::kSparse, CodecId::kSnappyZstd}) {
    Started started(random, codec);
    started.Damage();
    const Status corrupt = started.Go(0, 1, 4 * kMiB).status();
    EXPECT_EQ(corrupt.code(), Code::kCorrupt);
    EXPECT_THAT(corrupt.message(), HasSubstr("does not match its SHA-256"));
    EXPECT_FALSE(started.Attach(1).ok());  // whatever was applied before
  }
}

}  // namespace
}  // namespace xorbit
