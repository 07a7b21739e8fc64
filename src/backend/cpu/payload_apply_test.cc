// The CPU backend's whole round: encode a diff of a random model, pre-flight it, apply it, take it back, refuse it elsewhere.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "delta/oracle.h"
#include "tensor/ownership.h"
#include "tensor/random_model.h"

namespace xorbit {
namespace {

// A random update, cut over some owners and encoded with some codec.
struct Update {
  Layout layout;
  std::unique_ptr<RandomTensors> before;
  std::unique_ptr<RandomTensors> after;
  std::vector<Buffer> payloads;
};

Update MakeUpdate(uint64_t seed, const Backend& backend, CodecId codec) {
  Random random(seed);
  Update update;
  update.layout = RandomLayout(random, 10, 20'000);
  update.before = std::make_unique<RandomTensors>(random, update.layout);
  update.after = std::make_unique<RandomTensors>(random, update.layout);
  update.after->CopyFrom(*update.before);
  const uint64_t densities[] = {0, 1, 10, 200, 700, 1000};
  update.after->Mutate(random, update.layout, densities[seed % 6]);
  const auto owner_count = static_cast<uint32_t>(Between(random, 1, 4));
  const Split splits[] = {Split::kWhole, Split::kRange, Split::kColumn};
  const auto owners = PlanOwners(update.layout, owner_count, splits[seed % 3]).value();
  StateDigest base = backend.Scan(update.layout, update.before->bytes(), ScanScope::kFrozen, 2);
  StateDigest change;
  for (uint32_t i = 0; i < owner_count; ++i) {
    auto encoded = backend.EncodeDiff(update.layout, owners[i], InTensors(owners[i], update.before->bytes()),
                                      InTensors(owners[i], update.after->bytes()), codec, {});
    EXPECT_TRUE(encoded.ok()) << encoded.status().message();
    base += encoded->base;
    const Payload payload =
        WritePayload(update.layout, {codec, i, owner_count}, owners[i], std::move(encoded->segments), 1).value();
    change += payload.change;
    update.payloads.push_back(FileBytesOf(payload));
  }
  EXPECT_EQ(base, OracleDigest(update.layout, update.before->bytes()));
  EXPECT_EQ(base + change, OracleDigest(update.layout, update.after->bytes()));
  return update;
}

bool SameBytes(const RandomTensors& a, const RandomTensors& b) {
  const auto x = a.bytes();
  const auto y = b.bytes();
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::equal(x[i].begin(), x[i].end(), y[i].begin(), y[i].end())) return false;
  }
  return true;
}

class PayloadApplyTest : public testing::TestWithParam<CodecId> {};

TEST_P(PayloadApplyTest, GoesThereAndBackByteForByte) {
  const auto backend = MakeCpuBackend();
  for (uint64_t seed = 1; seed <= 18; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Update update = MakeUpdate(seed, *backend, GetParam());
    RandomTensors live = *update.before;
    const std::vector<MutableBytes> mutable_live = live.mutable_bytes();
    for (const Direction direction : {Direction::kForward, Direction::kInverse}) {
      for (const Buffer& bytes : update.payloads) {
        const PayloadView payload = ParsePayload(update.layout, bytes).value();
        const auto ready = backend->Preflight(update.layout, payload, live.bytes(), direction, 2);
        ASSERT_TRUE(ready.ok()) << ready.status().message();
        EXPECT_EQ(ready->change_count, payload.header.change_count);
        const auto applied = backend->Apply(update.layout, payload, mutable_live, direction, 2);
        ASSERT_TRUE(applied.ok()) << applied.status().message();
        EXPECT_EQ(applied->change_count, payload.header.change_count);
      }
      EXPECT_TRUE(SameBytes(live, direction == Direction::kForward ? *update.after : *update.before));
    }
  }
}

TEST_P(PayloadApplyTest, RefusesAnotherBaseAndLeavesItAlone) {
  const auto backend = MakeCpuBackend();
  for (uint64_t seed = 1; seed <= 18; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Update update = MakeUpdate(seed, *backend, GetParam());
    RandomTensors live = *update.after;  // as if the delta had been applied already: the second time must not pass
    const RandomTensors untouched = live;
    for (const Buffer& bytes : update.payloads) {
      const PayloadView payload = ParsePayload(update.layout, bytes).value();
      if (payload.header.change_count == 0) continue;
      EXPECT_EQ(backend->Preflight(update.layout, payload, live.bytes(), Direction::kForward, 2).status().code(),
                Code::kRefused);
      EXPECT_EQ(backend->Apply(update.layout, payload, live.mutable_bytes(), Direction::kForward, 2).status().code(),
                Code::kRefused);
      EXPECT_TRUE(SameBytes(live, untouched));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, PayloadApplyTest,
                         testing::Values(CodecId::kSparse, CodecId::kSnappy, CodecId::kLz4, CodecId::kSnappyZstd,
                                         CodecId::kLz4Zstd, CodecId::kZstd),
                         [](const auto& codec) {
                           std::string name(FindCodec(codec.param)->name());
                           std::replace(name.begin(), name.end(), '+', '_');
                           return name;
                         });

}  // namespace
}  // namespace xorbit
