// Shadows, kept copies and aliases on emulated warps against the CPU backend, on the same memory: reports, bytes, verdicts.
#include "backend/cuda/binding_tile.h"

#include <gtest/gtest.h>

#include "backend/cuda/testing/bound_update.h"
#include "backend/cuda/testing/emulated_update.h"
#include "base/testing/seed.h"

namespace xorbit::cuda {
namespace {

using testing::BoundUpdate;
using testing::EmulatedUpdate;
using testing::MakeBoundUpdate;
using testing::RandomUpdate;

constexpr uint64_t kMaxElements = 1500;

// An update, and live memory in which the CPU and emulated warps prepare it.
struct Scene {
  Scene(const Backend& backend, uint64_t seed, bool is_partial = false, bool tears = false)
      : Scene(MakeBoundUpdate(backend, seed, kMaxElements, tears).value(), seed, is_partial) {}
  Scene(BoundUpdate of, uint64_t seed, bool is_partial) : random(seed), bound(std::move(of)) {
    LiveMapSpec spec = is_partial ? testing::OneRankOf(random, bound.spec) : bound.spec;
    auto map = LiveMap::Make(layout(), std::move(spec));
    EXPECT_TRUE(map.ok()) << map.status().message();
    live = std::make_unique<RandomLiveMemory>(random, layout(), std::move(map).value());
    live->Fill(bound.update.before->bytes());
  }
  const Layout& layout() const { return bound.update.layout; }
  std::span<const PayloadView> payloads() const { return bound.update.payloads; }
  EmulatedUpdate Emulate(std::span<const PayloadView> which, const PrepareOptions& options) {
    return {layout(), which, live->map(), PlacesOf(live->memory()), options};
  }
  // `here` with the images of shadows as they are there.
  Buffer WithImagesOf(const Buffer& there, const Buffer& here) const {
    Buffer mixed = here;
    for (const ShadowBinding& shadow : live->map().shadows()) {
      const MutableBytes region = live->memory().regions[shadow.piece.region_index];
      const auto at = region.data() - live->bytes().data();
      std::copy_n(there.begin() + at, region.size(), mixed.begin() + at);
    }
    return mixed;
  }
  // Half bytes in regions that do not end on a word are refused by design.
  bool is_refused() const {
    return PlanUpdate(layout(), payloads(), live->map(), PlacesOf(live->memory())).status().code() == Code::kRefused;
  }

  Random random;
  BoundUpdate bound;
  std::unique_ptr<RandomLiveMemory> live;
};

void Preflight(EmulatedUpdate* update) {
  update->Preflight();
  update->Bind(BindingStep::kCheck);
}

void ExpectSameReports(const PrepareReport& got, const PrepareReport& want) {
  EXPECT_EQ(got.change_count, want.change_count);
  EXPECT_EQ(got.local_change_count, want.local_change_count);
  EXPECT_EQ(got.record_count, want.record_count);
  EXPECT_EQ(got.change, want.change);
  EXPECT_EQ(got.sums, want.sums);
  EXPECT_TRUE(std::ranges::includes(got.derived, want.derived));  // "or may"
}

// One kind of write, and what shadows do after it.
template <ApplyKind kKind>
void Write(EmulatedUpdate* update) {
  update->Apply<kKind>(false);
  update->Bind(kKind == ApplyKind::kStore     ? BindingStep::kStore
               : kKind == ApplyKind::kRestore ? BindingStep::kRestore
                                              : BindingStep::kFollowXor);
}

void ExpectThereAndBack(EmulatedUpdate* update, const RandomLiveMemory& live, const Buffer& here, const Buffer& there) {
  Write<ApplyKind::kReturningXor>(update);
  EXPECT_EQ(live.Snapshot(), there);
  Write<ApplyKind::kXor>(update);
  EXPECT_EQ(live.Snapshot(), here);
  for (int repeat = 0; repeat < 2; ++repeat) {
    Write<ApplyKind::kStore>(update);
    EXPECT_EQ(live.Snapshot(), there);
  }
  for (int repeat = 0; repeat < 2; ++repeat) {
    Write<ApplyKind::kRestore>(update);
    EXPECT_EQ(live.Snapshot(), here);
  }
  EXPECT_TRUE(update->Verdict().ok()) << update->Verdict().message();
}

TEST(BindingTile, GoesThereAndBackAsTheCpuDoes) {
  const auto backend = MakeCpuBackend();
  uint64_t cast_count = 0;
  uint64_t tie_count = 0;
  for (uint64_t seed = 1; seed <= 48; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PrepareOptions options;
    options.partial = seed % 3 == 0;
    if (seed % 2 == 0) options.direction = Direction::kInverse;
    Scene scene(*backend, seed, options.partial);
    if (scene.is_refused()) continue;
    if (seed % 2 == 0) scene.live->Fill(scene.bound.update.after->bytes());
    const Buffer here = scene.live->Snapshot();
    EmulatedUpdate emulated = scene.Emulate(scene.payloads(), options);
    Preflight(&emulated);
    const auto on_host = backend->Prepare(scene.layout(), scene.payloads(), scene.live->memory(), options);
    ASSERT_TRUE(on_host.ok()) << on_host.status().message();
    ASSERT_TRUE(emulated.Verdict().ok()) << emulated.Verdict().message();
    ExpectSameReports(emulated.Report().value(), (*on_host)->report());
    ASSERT_TRUE((*on_host)->Apply().ok());
    const Buffer there = scene.live->Snapshot();
    ASSERT_TRUE((*on_host)->Undo().ok());
    ASSERT_EQ(scene.live->Snapshot(), here);
    ExpectThereAndBack(&emulated, *scene.live, here, there);
    cast_count += emulated.plan().cast_tiles.size();
    tie_count += emulated.plan().ties.size();
  }
  EXPECT_GT(cast_count, 20U);
  EXPECT_GT(tie_count, 20U);
}

// A shadow between tensors that are none: the tiles before and after it are left out.
TEST(BindingTile, GoesThroughTheTilesOfShadowsOnly) {
  const auto backend = MakeCpuBackend();
  constexpr uint64_t kUnits = 30'000;
  Random random(TestSeed());
  BoundUpdate bound;
  RandomUpdate& update = bound.update;
  std::vector<TensorSpec> tensors;
  for (const char* name : {"a", "b", "c"}) tensors.push_back({.name = name, .dtype = Dtype::kBF16, .shape = {kUnits}});
  update.layout = Layout::Make(std::move(tensors)).value();
  update.before = std::make_unique<RandomTensors>(random, update.layout);
  update.after = std::make_unique<RandomTensors>(random, update.layout);
  update.after->CopyFrom(*update.before);
  update.after->Mutate(random, update.layout, 200);
  ASSERT_TRUE(EncodeRandomUpdate(*backend, 1, Split::kWhole, &update).ok());
  bound.spec.classes.push_back({.granule_bits = 16, .digit_count = 1, .digits = {LiveDigit{kUnits, 1, 1}}});
  bound.spec.regions = {{"a", 2 * kUnits}, {"b", 4 * kUnits}, {"c", 2 * kUnits}};
  bound.spec.pieces = {{.tensor_index = 0, .region_index = 0}, {.tensor_index = 2, .region_index = 2}};
  bound.spec.shadows = {{Cast::kBf16ToF32, {.tensor_index = 1, .region_index = 1}}};
  Scene scene(std::move(bound), random(), false);
  const Buffer here = scene.live->Snapshot();
  scene.live->Fill(scene.bound.update.after->bytes());
  const Buffer there = scene.live->Snapshot();
  scene.live->Fill(scene.bound.update.before->bytes());
  EmulatedUpdate emulated = scene.Emulate(scene.payloads(), {});
  ASSERT_EQ(emulated.plan().cast_tiles.size(), 1U);
  EXPECT_GT(emulated.plan().cast_tiles.front().begin, 0U);
  EXPECT_LT(emulated.plan().cast_tiles.front().end, emulated.plan().tile_count);
  Preflight(&emulated);
  ASSERT_TRUE(emulated.Verdict().ok()) << emulated.Verdict().message();
  ExpectThereAndBack(&emulated, *scene.live, here, there);
}

// Somebody else writes between prepare and apply, into a weight, a kept copy or an image: refused, and left as found.
TEST(BindingTile, LeavesAloneWhatSomebodyChanged) {
  const auto backend = MakeCpuBackend();
  uint64_t image_count = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Scene scene(*backend, seed);
    RandomLiveMemory& live = *scene.live;
    if (scene.is_refused()) continue;
    const Buffer here = live.Snapshot();
    EmulatedUpdate emulated = scene.Emulate(scene.payloads(), {});
    Preflight(&emulated);
    const auto on_host = backend->Prepare(scene.layout(), scene.payloads(), live.memory(), {}).value();
    ASSERT_TRUE(on_host->Apply().ok());
    const Buffer there = live.Snapshot();
    ASSERT_TRUE(on_host->Undo().ok());
    if (here == there) continue;
    const Buffer images_there = scene.WithImagesOf(there, here);
    const bool is_image = seed % 2 == 0 && images_there != here;
    image_count += is_image ? 1 : 0;
    const auto [byte, value] = ForeignValue(scene.random, &live, here, is_image ? images_there : there);
    *byte = value;
    const Buffer foreign = live.Snapshot();
    EXPECT_EQ(on_host->Apply().code(), Code::kRefused);
    Write<ApplyKind::kReturningXor>(&emulated);
    EXPECT_EQ(emulated.Verdict().code(), Code::kRefused);
    Write<ApplyKind::kXor>(&emulated);
    EXPECT_EQ(live.Snapshot(), foreign);
    emulated.ClearCounters();
    Write<ApplyKind::kStore>(&emulated);
    EXPECT_EQ(emulated.Verdict().code(), Code::kRefused);
    Write<ApplyKind::kRestore>(&emulated);
    EXPECT_EQ(live.Snapshot(), foreign);
  }
  EXPECT_GT(image_count, 5U);
}

// The same before prepare: the reason is the CPU's.
TEST(BindingTile, RefusesImagesThatAreNotTheirCopies) {
  const auto backend = MakeCpuBackend();
  uint64_t image_count = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Scene scene(*backend, seed);
    RandomLiveMemory& live = *scene.live;
    if (scene.is_refused()) continue;
    const Buffer here = live.Snapshot();
    live.Fill(scene.bound.update.after->bytes());
    const Buffer there = live.Snapshot();
    live.Fill(scene.bound.update.before->bytes());
    if (here == there) continue;
    const auto [byte, value] = ForeignValue(scene.random, &live, here, there);
    *byte = value;
    EmulatedUpdate emulated = scene.Emulate(scene.payloads(), {});
    Preflight(&emulated);
    const Status want = backend->Prepare(scene.layout(), scene.payloads(), live.memory(), {}).status();
    EXPECT_EQ(want.code(), Code::kRefused);
    EXPECT_EQ(emulated.Verdict().message(), want.message());
    image_count += want.message().find("copies") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(image_count, 5U);
}

TEST(BindingTile, RefusesToTearTiedNamesApart) {
  const auto backend = MakeCpuBackend();
  uint64_t torn_count = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Scene scene(*backend, seed, /*is_partial=*/false, /*tears=*/true);
    if (scene.is_refused() || !scene.bound.torn) continue;
    EmulatedUpdate emulated = scene.Emulate(scene.payloads(), {});
    Preflight(&emulated);
    const Status want = backend->Prepare(scene.layout(), scene.payloads(), scene.live->memory(), {}).status();
    EXPECT_NE(want.message().find("share their weights"), std::string::npos) << want.message();
    EXPECT_EQ(emulated.Verdict().message(), want.message());
    ++torn_count;
  }
  EXPECT_GT(torn_count, 8U);
}

// Bytes that lie reach no other memory, and are told as they are.
TEST(BindingTile, RefusesDamagedPayloads) {
  const auto backend = MakeCpuBackend();
  uint64_t corrupt_count = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Scene scene(*backend, seed);
    if (scene.is_refused()) continue;
    const Buffer here = scene.live->Snapshot();
    for (int round = 0; round < 4; ++round) {
      const std::vector<Buffer>& payloads = scene.bound.update.payload_bytes;
      const auto [bytes, where] = testing::Damage(payloads[Between(scene.random, 0, payloads.size() - 1)], scene.random);
      SCOPED_TRACE("seed " + std::to_string(seed) + ", damaged at" + where);
      const Result<PayloadView> payload = ParsePayload(scene.layout(), bytes);
      if (!payload.ok()) continue;
      const testing::HostVerdict host = testing::Judge(*backend, *payload);
      EmulatedUpdate emulated = scene.Emulate({&*payload, 1}, {});
      ASSERT_EQ(emulated.status().ok(), host.head.ok());
      if (!host.head.ok()) continue;
      Preflight(&emulated);
      EXPECT_EQ(emulated.Verdict().code() == Code::kCorrupt, host.tile.code() == Code::kCorrupt);
      EXPECT_EQ(scene.live->Snapshot(), here);
      corrupt_count += host.tile.ok() ? 0 : 1;
    }
  }
  EXPECT_GT(corrupt_count, 10U);
}

}  // namespace
}  // namespace xorbit::cuda
