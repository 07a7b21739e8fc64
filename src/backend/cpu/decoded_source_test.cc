// DecodedSource against the oracle's fold: any deltas, cut by any owners, poured into any other cut.
#include "codec/decoded_source.h"

#include <gtest/gtest.h>

#include "change/list_source.h"
#include "delta/oracle.h"
#include "tensor/random_model.h"

namespace xorbit {
namespace {

struct EncodedDelta {
  std::vector<SegmentMap> maps;
  std::vector<EncodedSegment> segments;
  std::vector<Buffer> bodies;
  std::vector<std::unique_ptr<SegmentDecoder>> decoders;
};

std::vector<uint64_t> KeysOf(const Layout& layout) {
  std::vector<uint64_t> keys;
  for (const TensorSpec& tensor : layout.tensors()) keys.push_back(TensorKeyOf(tensor.name));
  return keys;
}

EncodedDelta EncodeWithOracle(Random& random, const Layout& layout, const std::vector<ConstBytes>& old_tensors,
                              const std::vector<ConstBytes>& new_tensors) {
  EncodedDelta delta;
  delta.maps = RandomSegments(random, layout);
  const Codec* codec = FindCodec(CodecId::kSparse);
  for (const SegmentMap& map : delta.maps) {
    const ListSource source(map.unit_bytes(), map.element_count(), OracleDiff(map, old_tensors, new_tensors), true);
    delta.segments.push_back(codec->Encode(map, KeysOf(layout), source, {}).value());
    Buffer& body = delta.bodies.emplace_back();
    for (const Buffer& piece : delta.segments.back().body) AppendBytes(body, piece);
  }
  for (size_t i = 0; i < delta.maps.size(); ++i) {
    const EncodedSegment& segment = delta.segments[i];
    const EncodedSegmentView view = {segment.has_digests, segment.record_count, segment.change_count, segment.tables,
                                     segment.records,     segment.outer,        delta.bodies[i]};
    auto decoder = codec->Open(delta.maps[i], view, 1);
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
    const auto cursor = source.Open(first, count);
    for (uint64_t w = first; w < first + count; ++w) {
      const Status status = cursor->Next(&window);
      EXPECT_TRUE(status.ok()) << status.message();
      for (uint32_t i = 0; i < window.count; ++i) {
        ElementChange change{.element = w * kWindowElements + window.positions[i]};
        std::memcpy(&change.xor_bits, window.xors.data() + uint64_t{i} * source.unit_bytes(), source.unit_bytes());
        if (source.has_values()) {
          std::memcpy(&change.old_bits, window.olds.data() + uint64_t{i} * source.unit_bytes(), source.unit_bytes());
        }
        all.push_back(change);
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
      for (const EncodedDelta& delta : deltas) {
        for (size_t i = 0; i < delta.maps.size(); ++i) {
          if (delta.maps[i].unit_bytes() == target.unit_bytes()) inputs.push_back({&delta.maps[i], delta.decoders[i].get()});
        }
      }
      std::vector<ElementChange> wanted = OracleDiff(target, base, target_state);
      EXPECT_EQ(Drain(DecodedSource(target, inputs, ValueSide::kBase, base), Between(random, 1, 5)), wanted);
      EXPECT_EQ(Drain(DecodedSource(target, inputs, ValueSide::kTarget, target_state), 1000), wanted);
      for (ElementChange& change : wanted) change.old_bits = 0;
      EXPECT_EQ(Drain(DecodedSource(target, inputs, ValueSide::kNone, {}), 2), wanted);
    }
  }
}

}  // namespace
}  // namespace xorbit
