// The digest of live memory against the oracle's of the canonical bytes that were put there: random maps, alone and in cohorts.
#include "backend/cpu/live_scan.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/testing/seed.h"
#include "codec/change_digest.h"
#include "delta/oracle.h"
#include "tensor/random_live_memory.h"
#include "tensor/tensor_test_util.h"

namespace xorbit {
namespace {

StateDigest FrozenDigest(const Layout& layout, const RandomTensors& tensors) {
  StateDigest digest;
  const std::vector<uint64_t> keys = TensorKeysOf(layout);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (layout.tensors()[i].frozen) digest += DigestOfRange(keys[i], 0, tensors.bytes()[i]);
  }
  return digest;
}

TEST(LiveScan, RanksAddUpToTheState) {
  const auto backend = MakeCpuBackend();
  for (uint64_t round = 0; round < 60; ++round) {
    const uint64_t seed = TestSeed() + round;
    SCOPED_TRACE("XORBIT_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    const Layout layout = RandomLayout(random, 10, 20'000);
    const RandomTensors tensors(random, layout);
    LiveMapSpec whole = RandomLiveMap(random, layout).spec();
    PlaceShadows(random, layout, &whole);
    StateDigest all;
    StateDigest frozen;
    for (LiveMapSpec& spec : DealOut(random, whole, Between(random, 1, 3))) {
      RandomLiveMemory live(random, layout, LiveMap::Make(layout, std::move(spec)).value());
      live.Fill(tensors.bytes());
      const StateDigest rank = backend->ScanLive(layout, live.memory(), ScanScope::kAll, 2, {}).value();
      EXPECT_EQ(backend->ScanLive(layout, live.memory(), ScanScope::kAll, 1, {}).value(), rank);
      all += rank;
      frozen += backend->ScanLive(layout, live.memory(), ScanScope::kFrozen, 2, {}).value();
    }
    EXPECT_EQ(all, OracleDigest(layout, tensors.bytes()));
    EXPECT_EQ(frozen, FrozenDigest(layout, tensors));
  }
}

// A tensor that only a callback reads, and one that is another's.
TEST(LiveScan, CountsKeptCopiesAndAliases) {
  const auto backend = MakeCpuBackend();
  Random random(TestSeed());

  const Layout layout = MakeLayout({Tensor("derived", Dtype::kBF16, {30, 7}), Tensor("embedding", Dtype::kBF16, {30, 7}),
                                    Tensor("head", Dtype::kBF16, {30, 7})});
  RandomTensors tensors(random, layout);
  std::ranges::copy(tensors.bytes()[1], tensors.mutable_bytes()[2].begin());
  LiveMapSpec spec;
  spec.regions.push_back({"weight", 420});
  spec.classes.push_back({.granule_bits = 16, .digit_count = 1, .digits = {LiveDigit{210, 1, 1}}});
  spec.pieces.push_back({.tensor_index = 1});
  spec.aliases.push_back({2, 1});
  spec.derived.push_back({0, "refresh"});
  RandomLiveMemory live(random, layout, LiveMap::Make(layout, std::move(spec)).value());
  live.Fill(tensors.bytes());
  EXPECT_EQ(backend->ScanLive(layout, live.memory(), ScanScope::kAll, 2, {}).value(), OracleDigest(layout, tensors.bytes()));
}

}  // namespace
}  // namespace xorbit
