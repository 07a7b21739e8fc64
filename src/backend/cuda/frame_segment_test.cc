// Frames as a device encodes them, on an emulated warp, compared with the CPU's encoder byte by byte.
#include "backend/cuda/frame_segment.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/send_memory.h"
#include "backend/cuda/testing/same_segment.h"
#include "backend/cuda/testing/warp_emulator.h"
#include "base/testing/seed.h"
#include "base/unit.h"
#include "codec/change_digest.h"
#include "codec/mask_inner.h"
#include "codec/sparse_test_util.h"
#include "tensor/random_model.h"

namespace xorbit::cuda {
namespace {

constexpr CodecId kCodecs[] = {CodecId::kSnappy, CodecId::kLz4, CodecId::kSnappyZstd, CodecId::kLz4Zstd};

// Changes in order in the host's memory, as LaunchGather leaves them on a device, and launches as loops over one warp.
class EmulatedFrames final : public FrameStages {
 public:
  EmulatedFrames(const SegmentMap& map, const SendPlan& plan, const SegmentBytes& olds, const SegmentBytes& news,
                 FrameForm form)
      : memory_bytes_(PlaceSend(plan, {plan.element_count}, nullptr).used_bytes + 256, 0xcc), form_(form) {
    const uint64_t begin = DivideRoundUp(reinterpret_cast<uint64_t>(memory_bytes_.data()), uint64_t{256}) * 256;
    memory_ = PlaceSend(plan, {plan.element_count}, reinterpret_cast<uint8_t*>(begin));
    std::copy(plan.strips.begin(), plan.strips.end(), memory_.strips);
    std::copy(plan.spans.begin(), plan.spans.end(), memory_.spans);
    WithUnit(plan.unit_bytes, [&]<typename Unit>() { OrderChanges<Unit>(map, plan, olds, news); });
    for (uint32_t i = 0; i < kWordFactorCount; ++i) word_factors_[i] = WordFactorAt(i);
  }

  Result<std::vector<FrameSurvey>> Survey(std::span<const SendFrame> frames) override {
    ++survey_count;
    surveys_.assign(frames.size(), {});
    OnAllFrames(frames, [&]<typename Unit>(const FramesOnDevice& on_device, uint64_t i) {
      SurveyFrame<Unit>(memory_.device, on_device, i, word_factors_);
    });
    return surveys_;
  }
  // One byte more than needed, which nothing may touch.
  Status Write(std::span<const SendFrame> frames, uint64_t inner_bytes) override {
    inner.assign(inner_bytes + 1, 0xa5);
    OnAllFrames(frames, [&]<typename Unit>(const FramesOnDevice& on_device, uint64_t i) {
      WriteFrame<Unit>(memory_.device, on_device, i);
    });
    EXPECT_EQ(inner.back(), 0xa5);
    inner.pop_back();
    return {};
  }

  Buffer inner;
  int survey_count = 0;

 private:
  template <typename Unit>
  void OrderChanges(const SegmentMap& map, const SendPlan& plan, const SegmentBytes& olds, const SegmentBytes& news) {
    uint64_t count = 0;
    uint64_t group = 0;
    memory_.device.group_starts[0] = 0;
    RunWalker runs(map, 0, map.element_count());
    for (Run run; runs.Next(&run);) {
      for (uint64_t i = 0; i < run.element_count; ++i) {
        const uint64_t element = run.segment_element + i;
        while (group + 1 < plan.group_count() && plan.strips[(group + 1) * kStripsPerGroup].first_element <= element) {
          memory_.device.group_starts[++group] = count;
        }
        const auto old_value = LoadLe<Unit>(olds.Of(run).data() + i * sizeof(Unit));
        const auto bits = static_cast<Unit>(old_value ^ LoadLe<Unit>(news.Of(run).data() + i * sizeof(Unit)));
        if (bits == 0) continue;
        StoreChange(memory_.device.changes, count++, Pack<Unit>({static_cast<uint32_t>(element), old_value, bits}));
      }
    }
    while (group < plan.group_count()) memory_.device.group_starts[++group] = count;
    memory_.device.counters->change_count = count;
  }
  template <typename Body>
  void OnAllFrames(std::span<const SendFrame> frames, const Body& body) {
    const FramesOnDevice on_device{form_, frames.data(), frames.size(), surveys_.data(), inner.data()};
    WithUnit(memory_.device.unit_bytes, [&]<typename Unit>() {
      for (uint64_t i = 0; i < frames.size(); ++i) {
        RunWarp([&] { body.template operator()<Unit>(on_device, i); });
      }
    });
  }

  std::vector<uint8_t> memory_bytes_;
  FrameForm form_;
  SendMemory memory_;
  std::vector<FrameSurvey> surveys_;
  uint64_t word_factors_[kWordFactorCount];
};

// Returns how often frames were surveyed.
int CheckMap(const Layout& layout, const SegmentMap& map, const SegmentBytes& olds, const SegmentBytes& news, CodecId codec,
             uint64_t frame_bytes) {
  const std::vector<uint64_t> keys = TensorKeysOf(layout);
  EncodeOptions options;
  options.frame_bytes = frame_bytes;
  const Result<EncodedOwner> want =
      MakeCpuBackend()->EncodeDiff(layout, {&map, 1}, {.bytes = {&olds, 1}}, {&news, 1}, codec, options);
  EXPECT_TRUE(want.ok()) << want.status().message();
  EmulatedFrames stages(map, PlanSend(map, keys, olds, news), olds, news, *FrameFormOf(codec));
  const Result<SentFrames> sent = EncodeFrames(PlanSendFrames(map, frame_bytes), &stages);
  EXPECT_TRUE(sent.ok()) << sent.status().message();
  const Result<EncodedSegment> got = ToEncodedSegment(*sent, codec, stages.inner, options);
  EXPECT_TRUE(got.ok()) << got.status().message();
  ExpectSame(want->segments[0], *got);
  return stages.survey_count;
}

void CheckSeed(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const Layout layout = RandomLayout(random, 5, 5'000);
  RandomTensors before(random, layout);
  RandomTensors after(random, layout);
  after.CopyFrom(before);
  const uint64_t densities[] = {1, 3, 10, 30, 100, 300, 700, 1000};
  after.Mutate(random, layout, densities[seed % 8]);
  const uint64_t frame_sizes[] = {48, 248, 1024, 8192, 1 << 20};
  for (const SegmentMap& map : RandomSegments(random, layout)) {
    if (map.element_count() == 0) continue;
    const SegmentBytes olds = SegmentBytes::InTensors(map, before.bytes());
    const SegmentBytes news = SegmentBytes::InTensors(map, after.bytes());
    CheckMap(layout, map, olds, news, kCodecs[seed % 4], frame_sizes[seed % 5]);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(FrameSegment, EqualsTheCpusBytes) {
  for (uint64_t seed = 1; seed <= TestRounds(24) && !HasFailure(); ++seed) CheckSeed(seed);
}

// Masks of every short length with every distance between two bytes, and the ends, where LZ4 has rules of its own.
TEST(FrameSegment, EqualsTheCpusBytesAtEveryEdge) {
  for (const uint64_t length : {1, 2, 9, 12, 13, 14, 20, 33, 330}) {
    const Layout layout = OneTensorLayout(1, length);
    const SegmentMap map = OneTensorMap(1, length);
    const uint64_t first_step = length > 40 ? 7 : 1;
    for (uint64_t first = 0; first < length; first += first_step) {
      for (uint64_t second = first; second < length; ++second) {
        if (length > 40 && second > first + 14 && second + 20 < length) continue;
        SCOPED_TRACE(std::to_string(length) + " bytes, " + std::to_string(first) + " and " + std::to_string(second));
        const Buffer zeros(length);
        Buffer changed(length);
        changed[first] = 3;
        changed[second] = 5;
        const ConstBytes old_tensor(zeros);
        const ConstBytes new_tensor(changed);
        const SegmentBytes olds = SegmentBytes::InTensors(map, {&old_tensor, 1});
        const SegmentBytes news = SegmentBytes::InTensors(map, {&new_tensor, 1});
        for (const CodecId codec : {CodecId::kSnappy, CodecId::kLz4}) CheckMap(layout, map, olds, news, codec, 1 << 20);
        if (HasFailure()) return;
      }
    }
  }
}

// Long literals and long runs, which the lanes write together.
TEST(FrameSegment, WritesWhatIsLongTogether) {
  constexpr uint64_t kLength = 150'000;
  const Layout layout = OneTensorLayout(1, kLength);
  const SegmentMap map = OneTensorMap(1, kLength);
  const Buffer zeros(kLength);
  Buffer changed(kLength);
  for (uint64_t i = 30'000; i < 30'300; ++i) changed[i] = 1;
  for (uint64_t i = 50'000; i < 120'000; i += 3) changed[i] = 2;
  const ConstBytes old_tensor(zeros);
  const ConstBytes new_tensor(changed);
  const SegmentBytes olds = SegmentBytes::InTensors(map, {&old_tensor, 1});
  const SegmentBytes news = SegmentBytes::InTensors(map, {&new_tensor, 1});
  for (const CodecId codec : {CodecId::kSnappy, CodecId::kLz4}) CheckMap(layout, map, olds, news, codec, 1 << 20);
}

TEST(FrameSegment, HalvesFramesWhoseDigestsAgree) {
  constexpr uint64_t kLength = 1000;
  const Layout layout = OneTensorLayout(8, kLength);
  const SegmentMap map = OneTensorMap(8, kLength);
  const std::vector<uint64_t> keys = TensorKeysOf(layout);
  Buffer before(kLength * 8);
  Buffer after(kLength * 8);
  for (uint64_t i = 0; i < kLength; i += 7) {
    const ElementChange change = HiddenChange(keys[0], i);
    StoreLe<uint64_t>(before.data() + 8 * i, change.old_bits);
    StoreLe<uint64_t>(after.data() + 8 * i, change.old_bits ^ change.xor_bits);
  }
  const ConstBytes old_tensor(before);
  const ConstBytes new_tensor(after);
  const SegmentBytes olds = SegmentBytes::InTensors(map, {&old_tensor, 1});
  const SegmentBytes news = SegmentBytes::InTensors(map, {&new_tensor, 1});
  for (const CodecId codec : kCodecs) EXPECT_GT(CheckMap(layout, map, olds, news, codec, 4096), 3);
}

}  // namespace
}  // namespace xorbit::cuda
