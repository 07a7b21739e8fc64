// DecodedSource against the oracle's fold: any deltas, cut by any owners, poured into any other cut.
#include "codec/decoded_source.h"

#include <gtest/gtest.h>

#include "change/list_source.h"
#include "codec/sparse_test_util.h"
#include "delta/oracle.h"
#include "tensor/random_model.h"

namespace xorbit {
namespace {

struct EncodedDelta {
  std::vector<SegmentMap> maps;
  std::vector<SegmentImage> images;
  std::vector<std::unique_ptr<SegmentDecoder>> decoders;
};

EncodedDelta EncodeWithOracle(Random& random, const Layout& layout, const std::vector<ConstBytes>& old_tensors,
                              const std::vector<ConstBytes>& new_tensors) {
  EncodedDelta delta;
  delta.maps = RandomSegments(random, layout);
  const Codec* codec = FindCodec(CodecId::kSparse);
  for (const SegmentMap& map : delta.maps) {
    const ListSource source(map.unit_bytes(), map.element_count(), OracleDiff(map, old_tensors, new_tensors), true);
    delta.images.emplace_back(codec->Encode(map, TensorKeysOf(layout), source, {}).value());
  }
  for (size_t i = 0; i < delta.maps.size(); ++i) {
    auto decoder = codec->Open(delta.maps[i], delta.images[i].view());
    EXPECT_TRUE(decoder.ok()) << decoder.status().message();
    delta.decoders.push_back(std::move(decoder).value());
  }
  return delta;
}

std::vector<ElementChange> Drain(const ChangeSource& source, uint64_t windows_at_a_time) {
  std::vector<ElementChange> all;
  const uint64_t window_count = WindowCountOf(source.element_count());
  WindowChanges window;
  window.Reserve(source.unit_bytes(), source.has_values());
  for (uint64_t first = 0; first < window_count; first += windows_at_a_time) {
    const uint64_t count = std::min(windows_at_a_time, window_count - first);
    if (!source.MayChange(first, count)) continue;
    const auto cursor = source.Open(first, count);
    for (uint64_t w = first; w < first + count; ++w) {
      const Status status = cursor->Next(&window);
      EXPECT_TRUE(status.ok()) << status.message();
      for (uint32_t i = 0; i < window.count; ++i) {
        const uint64_t at = uint64_t{i} * source.unit_bytes();
        const uint64_t old_bits = source.has_values() ? UnitBits(window.olds.data() + at, source.unit_bytes()) : 0;
        const uint64_t xor_bits = UnitBits(window.xors.data() + at, source.unit_bytes());
        all.push_back({w * kWindowElements + window.positions[i], old_bits, xor_bits});
      }
    }
  }
  return all;
}

TEST(DecodedSourceTest, PoursAnyChainIntoAnySegmentation) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Layout layout = RandomLayout(random, 12, seed % 4 == 0 ? 200'000 : 5'000);
    const size_t step_count = Between(random, 1, 4);
    std::vector<RandomTensors> states;
    states.emplace_back(random, layout);
    for (size_t i = 0; i < step_count; ++i) {
      states.push_back(states.back());
      states.back().Mutate(random, layout, Between(random, 0, 3) * 100 + 1);
      // Some elements go back to where they were, so that changes cancel.
      if (i + 1 == step_count && random() % 2 == 0) states.back() = states.front();
    }
    std::vector<EncodedDelta> deltas;
    for (size_t i = 0; i < step_count; ++i) {
      deltas.push_back(EncodeWithOracle(random, layout, states[i].bytes(), states[i + 1].bytes()));
    }
    const auto base = states.front().bytes();
    const auto target_state = states.back().bytes();
    for (const SegmentMap& target : RandomSegments(random, layout)) {
      std::vector<DecodedInput> inputs;
      ReachedElements reached;
      for (const EncodedDelta& delta : deltas) {
        for (size_t i = 0; i < delta.maps.size(); ++i) {
          if (delta.maps[i].unit_bytes() == target.unit_bytes()) inputs.push_back({&delta.maps[i], delta.decoders[i].get()});
          reached.Add(delta.maps[i], *delta.decoders[i]);
        }
      }
      reached.Seal();
      std::vector<ElementChange> wanted = OracleDiff(target, base, target_state);
      EXPECT_EQ(
          Drain(DecodedSource(target, inputs, ValueSide::kBase, SegmentBytes::InTensors(target, base)), Between(random, 1, 5)),
          wanted);
      EXPECT_EQ(Drain(DecodedSource(target, inputs, ValueSide::kTarget, SegmentBytes::InTensors(target, target_state)), 1000),
                wanted);
      for (ElementChange& change : wanted) change.old_bits = 0;
      EXPECT_EQ(Drain(DecodedSource(target, inputs, ValueSide::kNone, std::nullopt), 2), wanted);
      EXPECT_EQ(Drain(DecodedSource(target, inputs, ValueSide::kNone, std::nullopt, &reached), 1), wanted);
    }
  }
}

// An encoder reads a source twice when its changes do not fit its memory: records must not be tallied twice.
TEST(DecodedSourceTest, TalliesEachRecordOnceHoweverOftenItIsRead) {
  Random random(7);
  const Layout layout = OneTensorLayout(2, 200'000);
  RandomTensors before(random, layout);
  RandomTensors after = before;
  after.Mutate(random, layout, 100);
  const EncodedDelta delta = EncodeWithOracle(random, layout, before.bytes(), after.bytes());
  std::vector<DecodedInput> inputs;
  std::vector<uint64_t> record_counts;
  for (size_t i = 0; i < delta.maps.size(); ++i) {
    inputs.push_back({&delta.maps[i], delta.decoders[i].get(), i});
    record_counts.push_back(delta.decoders[i]->record_count());
  }
  const LiveMap map = CanonicalMap(layout);
  const std::vector<uint64_t> keys = TensorKeysOf(layout);
  const std::vector<MutableBytes> live = before.mutable_bytes();
  RecordTally tally(record_counts);
  const SegmentMap target = OneTensorMap(2, 200'000);
  const DecodedSource source(target, inputs, LiveValues{{&map, live, {}}, keys, &tally});
  const std::vector<ElementChange> wanted = OracleDiff(target, before.bytes(), after.bytes());
  EXPECT_EQ(Drain(source, 2), wanted);
  EXPECT_EQ(Drain(source, 1), wanted);
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (uint64_t r = 0; r < record_counts[i]; ++r) {
      EXPECT_EQ(tally.Get(i, r).before, delta.decoders[i]->info(r).before);
      EXPECT_EQ(tally.Get(i, r).after, delta.decoders[i]->info(r).after);
    }
  }
}

// A decoder that finds its only record damaged.
class DamagedDecoder final : public SegmentDecoder {
 public:
  uint64_t record_count() const override { return 1; }
  RecordInfo info(uint64_t /*record_index*/) const override { return {.first = 3, .last = 9, .change_count = 2}; }
  Status Decode(uint64_t /*record_index*/, DecodedRecord* /*out*/) const override { return CorruptError("rotten bits"); }
};

TEST(DecodedSourceTest, PassesADecodersErrorOn) {
  const SegmentMap map = OneTensorMap(2, 10);
  const DamagedDecoder decoder;
  const Status status = ReadAllChanges(DecodedSource(map, {{&map, &decoder}}, ValueSide::kNone, std::nullopt)).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_EQ(status.message(), "rotten bits");
}

}  // namespace
}  // namespace xorbit
