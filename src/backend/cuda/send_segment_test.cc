// The sender's device code on an emulated warp, compared with the CPU's encoder.
#include "backend/cuda/send_segment.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/diff_line.h"
#include "backend/cuda/gather_tile.h"
#include "backend/cuda/group_sums.h"
#include "backend/cuda/pack_tile.h"
#include "backend/cuda/send_memory.h"
#include "backend/cuda/send_window.h"
#include "backend/cuda/testing/same_segment.h"
#include "backend/cuda/testing/warp_emulator.h"
#include "base/unit.h"
#include "codec/change_digest.h"
#include "codec/sparse_test_util.h"
#include "tensor/random_model.h"

namespace xorbit::cuda {
namespace {

// Launches as loops over one emulated warp; device memory is the host's.
class EmulatedStages final : public SendStages {
 public:
  EmulatedStages(const SendPlan& plan, const SendSizes& sizes)
      : plan_(&plan), memory_bytes_(PlaceSend(plan, sizes, nullptr).used_bytes + 256, 0xcc) {
    const uint64_t begin = DivideRoundUp(reinterpret_cast<uint64_t>(memory_bytes_.data()), uint64_t{256}) * 256;
    memory_ = PlaceSend(plan, sizes, reinterpret_cast<uint8_t*>(begin));
    if (sizes.slot_bytes > 0) {
      window_ = PlanWindow(plan, sizes.slot_bytes);
      const std::vector<Strip> strips = StripsInWindow(plan, window_, reinterpret_cast<uint64_t>(memory_.slots));
      std::copy(strips.begin(), strips.end(), memory_.strips);
    } else {
      window_.steps.push_back({0, plan.strips.size(), 0, 0});
      std::copy(plan.strips.begin(), plan.strips.end(), memory_.strips);
    }
    std::copy(plan.spans.begin(), plan.spans.end(), memory_.spans);
    for (uint32_t i = 0; i < kWordFactorCount; ++i) word_factors_[i] = WordFactorAt(i);
  }
  const SendMemory& memory() const { return memory_; }

  Status FindChanges() override {
    std::memset(memory_.cleared, 0, memory_.cleared_bytes);
    WithUnit(plan_->unit_bytes, [&]<typename Unit>() {
      // Each lane's own, as registers are.
      std::vector<std::optional<ChangeStore<Unit>>> stores(kWarpLanes);
      std::vector<std::optional<BaseSums>> bases(kWarpLanes);
      RunWarp([&] {
        stores[Lane()].emplace(device().cursors[0]);
        bases[Lane()].emplace();
      });
      for (uint64_t s = 0; s < window_.steps.size(); ++s) {
        const WindowStep& step = window_.steps[s];
        FillSlot(s);
        for (uint64_t i = step.first_strip * kLinesPerStrip; i < step.end_strip * kLinesPerStrip; ++i) {
          RunWarp([&] { PassLine<Unit>(i, &*stores[Lane()], &*bases[Lane()]); });
        }
      }
      RunWarp([&] { bases[Lane()]->AddTo(&device().counters->base); });
      for (uint64_t i = 0; i < device().group_count; ++i) {
        RunWarp([&] {
          const uint64_t sum = SumGroup(device(), i);
          if (Lane() == 0) device().group_starts[i] = sum;
        });
      }
      ScanGroups();
    });
    for (uint64_t w = 0; w < plan_->window_count(); ++w) {
      const uint64_t elements = WindowElementsAt(plan_->element_count, w);
      if (IsDenseWindow(elements, device().window_counts[w], plan_->unit_bytes)) device().counters->has_dense_window = 1;
    }
    return Survey(
        [&]<typename Unit>(uint64_t i, const SymbolCounts& counts) { GatherTile<Unit>(device(), i, counts, word_factors_); });
  }
  Status SurveyAgain() override {
    return Survey(
        [&]<typename Unit>(uint64_t i, const SymbolCounts& counts) { SurveyTile<Unit>(device(), i, counts, word_factors_); });
  }
  Status ReadCounts(SendCounters* counters, SendHistograms* histograms) override {
    *counters = *device().counters;
    *histograms = *device().histograms;
    return {};
  }
  Status ReadWindowCounts(std::vector<uint32_t>* window_counts) override {
    window_counts->assign(device().window_counts, device().window_counts + plan_->window_count());
    return {};
  }
  Status SetTiles(std::span<const SendTile> tiles) override {
    std::copy(tiles.begin(), tiles.end(), memory_.tiles);
    memory_.device.tiles = memory_.tiles;
    memory_.device.tile_count = tiles.size();
    return {};
  }
  Status Encode(const SendTablesPlan& tables) override {
    SendCounters& counters = *device().counters;
    counters.sparse_count = counters.sparse_saved_bytes = counters.dense_count = counters.dense_saved_bytes = 0;
    memory_.device.tables = tables.set;
    WithUnit(plan_->unit_bytes, [&]<typename Unit>() {
      const uint64_t tile_count = TileCountOf(device());
      EncodeWarpMemory warp{};
      for (uint64_t i = 0; i < tile_count; ++i) {
        RunWarp([&] { EncodeTile<Unit>(device(), i, tables.tables.data(), &warp); });
      }
      uint64_t offset = 0;
      for (uint64_t i = 0; i < tile_count; ++i) {
        device().records[i].offset = offset;
        offset += device().codes[i].byte_count;
      }
      counters.body_bytes = offset;
      for (uint64_t i = 0; i < tile_count; ++i) RunWarp([&] { PackTile<Unit>(device(), i, &warp); });
    });
    return {};
  }
  Status ReadTotals(SendCounters* counters) override {
    *counters = *device().counters;
    return {};
  }
  Status ReadSurveys(std::vector<TileSurvey>* surveys) override {
    surveys->assign(device().surveys, device().surveys + TileCountOf(device()));
    return {};
  }

 private:
  const SendOnDevice& device() const { return memory_.device; }
  // survey_tile<Unit>(tile, counts), of every tile.
  template <typename SurveyOne>
  Status Survey(SurveyOne&& survey_tile) {
    SendCounters& counters = *device().counters;
    counters.has_long_tile = counters.lane0_change = counters.lane1_change = counters.unsplit_count = 0;
    std::memset(device().histograms, 0, sizeof(SendHistograms));
    std::vector<uint32_t> counts(size_t{kMostTables} * kValueSymbols);
    WithUnit(plan_->unit_bytes, [&]<typename Unit>() {
      const uint64_t tile_count = TileCountOf(device());
      for (uint64_t i = 0; i < tile_count; ++i) {
        RunWarp([&] { survey_tile.template operator()<Unit>(i, SymbolCounts(counts.data())); });
      }
    });
    for (size_t i = 0; i < counts.size(); ++i) (&device().histograms->counts[0][0])[i] = counts[i];
    return {};
  }
  void FillSlot(uint64_t step_index) {
    const WindowStep& step = window_.steps[step_index];
    uint8_t* const slot = memory_.slots + step_index % kWindowSlots * window_.slot_bytes;
    for (uint64_t c = step.first_copy; c < step.end_copy; ++c) {
      const WindowCopy& copy = window_.copies[c];
      ASSERT_LE(copy.slot_offset + copy.byte_count, window_.slot_bytes);
      std::memcpy(slot + copy.slot_offset, reinterpret_cast<const void*>(copy.host_address), copy.byte_count);
    }
  }
  // As a warp does, without the copies ahead.
  template <typename Unit>
  void PassLine(uint64_t line_index, ChangeStore<Unit>* store, BaseSums* base) {
    const Strip& strip = device().strips[line_index / kLinesPerStrip];
    const StripView view = ViewOf(strip, sizeof(Unit));
    LoadedLine line;
    if (view.Has(LineAtOf(line_index))) LoadRagged(view, LineAtOf(line_index), &line);
    DiffLine<Unit>(device(), strip, view, device().spans[strip.span_index], line_index, line, store, base);
  }
  void ScanGroups() {
    uint64_t sum = 0;
    for (uint64_t i = 0; i <= device().group_count; ++i) sum += std::exchange(device().group_starts[i], sum);
    device().counters->change_count = sum;
  }

  const SendPlan* plan_;
  std::vector<uint8_t> memory_bytes_;
  SendMemory memory_;
  WindowPlan window_;
  uint64_t word_factors_[kWordFactorCount];
};

Result<EncodedSegment> EncodeEmulated(const SendPlan& plan, const SendSizes& sizes, StateDigest* base = nullptr) {
  EmulatedStages stages(plan, sizes);
  XORBIT_ASSIGN_OR_RETURN(const SentSegment sent, EncodeSegment(plan, stages.memory().room, &stages));
  if (base != nullptr) *base = sent.base;
  const auto* records = reinterpret_cast<const uint8_t*>(stages.memory().device.records);
  return ToEncodedSegment(sent, plan.unit_bytes, {records, sent.record_count * sizeof(TileRecord)},
                          {stages.memory().device.body, sent.body_bytes});
}

// A state's tensors where blocks of the state digest are aligned.
struct AlignedTensors {
  std::vector<uint8_t> memory;
  std::vector<ConstBytes> tensors;
  explicit AlignedTensors(const std::vector<ConstBytes>& from) {
    uint64_t total = kDigestBlockBytes;
    for (const ConstBytes bytes : from) total += PaddedBytesOf(bytes);
    memory.resize(total);
    uint64_t at = (0 - reinterpret_cast<uint64_t>(memory.data())) % kDigestBlockBytes;
    for (const ConstBytes bytes : from) {
      std::copy(bytes.begin(), bytes.end(), memory.begin() + static_cast<ptrdiff_t>(at));
      tensors.emplace_back(memory.data() + at, bytes.size());
      at += PaddedBytesOf(bytes);
    }
  }
  static uint64_t PaddedBytesOf(ConstBytes bytes) {
    return DivideRoundUp(bytes.size(), uint64_t{kDigestBlockBytes}) * kDigestBlockBytes;
  }
};

void CheckSeed(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const Layout layout = RandomLayout(random, 6, 20'000);
  RandomTensors before(random, layout);
  RandomTensors after(random, layout);
  after.CopyFrom(before);
  const uint64_t densities[] = {0, 1, 10, 100, 500, 700, 950, 1000};
  after.Mutate(random, layout, densities[seed % 8]);
  const std::vector<uint64_t> keys = TensorKeysOf(layout);
  const auto backend = MakeCpuBackend();
  const AlignedTensors aligned(before.bytes());
  for (const SegmentMap& map : RandomSegments(random, layout)) {
    const SegmentBytes olds = SegmentBytes::InTensors(map, seed % 3 == 0 ? aligned.tensors : before.bytes());
    const SegmentBytes news = SegmentBytes::InTensors(map, after.bytes());
    const Result<EncodedOwner> want =
        backend->EncodeDiff(layout, {&map, 1}, {.bytes = {&olds, 1}}, {&news, 1}, CodecId::kSparse, {});
    ASSERT_TRUE(want.ok()) << want.status().message();
    const SendPlan plan = PlanSend(map, keys, olds, news);
    StateDigest base;
    const Result<EncodedSegment> got =
        EncodeEmulated(plan, {map.element_count(), 64, seed % 2 == 0 ? 3 * kMinSlotBytes : 0}, &base);
    ASSERT_TRUE(got.ok()) << got.status().message();
    ExpectSame(want->segments[0], *got);
    EXPECT_TRUE(plan.digest_blocks_aligned || seed % 3 != 0);
    EXPECT_TRUE(!plan.digest_blocks_aligned || want->base == base);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(SendSegment, EqualsTheCpusBytes) {
  for (uint64_t seed = 1; seed <= 24 && !HasFailure(); ++seed) CheckSeed(seed);
}

// So many of 16 elements change, and digests do not show those from `first_hidden` on: their tiles are halved down to single
// changes.
void CheckHalves(uint64_t element_count, uint64_t first_hidden, uint64_t changed_of_16) {
  SCOPED_TRACE(std::to_string(element_count) + " elements, " + std::to_string(changed_of_16) + " of 16 changed");
  const Layout layout = OneTensorLayout(8, element_count);
  const SegmentMap map = OneTensorMap(8, element_count);
  const std::vector<uint64_t> keys = TensorKeysOf(layout);
  std::vector<uint64_t> before(element_count);
  std::vector<uint64_t> after(element_count);
  for (uint64_t i = 0; i < element_count; ++i) {
    if (i % 16 >= changed_of_16) continue;
    const ElementChange change = i < first_hidden ? ElementChange{i, 0, i + 1} : HiddenChange(keys[0], i);
    before[i] = change.old_bits;
    after[i] = change.old_bits ^ change.xor_bits;
  }
  const auto bytes_of = [&](const std::vector<uint64_t>& values) {
    return ConstBytes{reinterpret_cast<const uint8_t*>(values.data()), element_count * sizeof(uint64_t)};
  };
  const SegmentBytes olds = SegmentBytes::InImage(map, bytes_of(before));
  const SegmentBytes news = SegmentBytes::InImage(map, bytes_of(after));
  const Result<EncodedOwner> want =
      MakeCpuBackend()->EncodeDiff(layout, {&map, 1}, {.bytes = {&olds, 1}}, {&news, 1}, CodecId::kSparse, {});
  ASSERT_TRUE(want.ok()) << want.status().message();
  EXPECT_GT(want->segments[0].record_count, 1U);
  const Result<EncodedSegment> got = EncodeEmulated(PlanSend(map, keys, olds, news), {element_count, element_count, 0});
  ASSERT_TRUE(got.ok()) << got.status().message();
  ExpectSame(want->segments[0], *got);
}

TEST(SendSegment, HalvesTilesLikeTheCpu) {
  CheckHalves(300, 0, 15);
  CheckHalves(2000, 0, 15);
  CheckHalves(kWindowElements + 300, kWindowElements, 15);
  CheckHalves(300, 0, 4);
}

TEST(SendPlan, DividesByEveryFrequency) {
  Random random(11);
  for (uint32_t frequency = 1; frequency < kFrequencySum; ++frequency) {
    Frequencies frequencies{};
    frequencies[3] = static_cast<uint16_t>(frequency);
    const SendTable::Entry entry = MakeSendTable(frequencies).entries[3];
    const uint64_t end = uint64_t{frequency} << 20;
    const auto check = [&](uint64_t x) {
      ASSERT_EQ(DivideByFrequency(static_cast<uint32_t>(x), entry.packed, entry.reciprocal), x / frequency)
          << x << " / " << frequency;
    };
    for (int i = 0; i < 200; ++i) {
      const uint64_t multiple = Between(random, 1, (uint64_t{1} << 20) - 1) * frequency;
      check(multiple);
      check(multiple - 1);
    }
    check(0);
    check(end - 1);
    check(end - frequency);
  }
}

TEST(SendSegment, SaysHowMuchRoomItNeeds) {
  Random random(7);
  const Layout layout = RandomLayout(random, 6, 20'000);
  RandomTensors before(random, layout);
  RandomTensors after(random, layout);
  after.CopyFrom(before);
  after.Mutate(random, layout, 500);
  const std::vector<uint64_t> keys = TensorKeysOf(layout);
  for (const SegmentMap& map : RandomSegments(random, layout)) {
    if (map.element_count() < 5000) continue;
    const SendPlan plan =
        PlanSend(map, keys, SegmentBytes::InTensors(map, before.bytes()), SegmentBytes::InTensors(map, after.bytes()));
    const Result<EncodedSegment> got = EncodeEmulated(plan, {100, 64, 0});
    EXPECT_EQ(got.status().code(), Code::kUsage) << got.status().message();
  }
}

TEST(SendPlan, StripsCoverTheSegmentWithinWindowsAndBorders) {
  Random random(3);
  for (int round = 0; round < 50; ++round) {
    const Layout layout = RandomLayout(random, 6, 300'000);
    const RandomTensors tensors(random, layout);
    for (const SegmentMap& map : RandomSegments(random, layout)) {
      const SegmentBytes bytes = SegmentBytes::InTensors(map, tensors.bytes());
      const SendPlan plan = PlanSend(map, TensorKeysOf(layout), bytes, bytes);
      uint64_t at = 0;
      for (const Strip& strip : plan.strips) {
        ASSERT_EQ(strip.first_element, at);
        at += strip.element_count;
        EXPECT_EQ(strip.first_element / kWindowElements, (at - 1) / kWindowElements);
        const uint64_t head = HeadBytesOf(strip.old_address, map.unit_bytes());
        EXPECT_LE(head + strip.element_count * map.unit_bytes(), kStripBytes);
      }
      EXPECT_EQ(at, map.element_count());
    }
  }
}

TEST(SendPlan, HalvesTilesThatDigestsDoNotTellApart) {
  const std::vector<SendTile> tiles = {{0, 4096, 0, 0}, {4096, 5, kTileFollows, 0}, {4101, 1, kTileFollows, 0}};
  std::vector<TileSurvey> surveys(3);
  surveys[0].after = 1;
  const std::vector<SendTile> split = SplitTiles(tiles, surveys);
  ASSERT_EQ(split.size(), 4U);
  EXPECT_EQ(split[1].change_count, 2U);
  EXPECT_EQ(split[2].first_change, 4098U);
  EXPECT_EQ(split[2].change_count, 3U);
  EXPECT_EQ(split[3].first_change, 4101U);
}

}  // namespace
}  // namespace xorbit::cuda
