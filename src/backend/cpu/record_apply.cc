#include "backend/cpu/record_apply.h"

namespace xorbit {
namespace {

template <uint32_t kUnitBytes>
struct UnitOf;
template <>
struct UnitOf<1> {
  using Type = uint8_t;
};
template <>
struct UnitOf<2> {
  using Type = uint16_t;
};
template <>
struct UnitOf<4> {
  using Type = uint32_t;
};
template <>
struct UnitOf<8> {
  using Type = uint64_t;
};

// Far enough ahead that a cache line from memory is there when its element's turn comes, near enough to stay in the cache.
constexpr uint64_t kPrefetchDistance = 24;

// Adds the contribution of one element, at byte `at` of its tensor, before and after.
template <uint32_t kUnitBytes, bool kBothLanes>
inline void Weigh(uint64_t key, uint64_t at, uint64_t old_bits, uint64_t new_bits, ChangeDigest* sum) {
  const auto add_word = [&](uint64_t word_index, uint64_t old_word, uint64_t new_word) {
    const StateDigest weight = WordWeight(key, word_index);
    sum->before += weight.lane0 * old_word;
    sum->after += weight.lane0 * new_word;
    if constexpr (kBothLanes) sum->lane1_change += weight.lane1 * (new_word - old_word);
  };
  if constexpr (kUnitBytes == 8) {
    add_word(at / 4, old_bits & 0xffffffff, new_bits & 0xffffffff);
    add_word(at / 4 + 1, old_bits >> 32, new_bits >> 32);
  } else {
    const uint64_t shift = 8 * (at % 4);
    add_word(at / 4, old_bits << shift, new_bits << shift);
  }
}

// Splits a record into runs that are contiguous in a tensor and calls visit(run, first change, one past the last) for each.
template <typename Visit>
void ForEachRun(const SegmentMap& map, const RecordInfo& info, const DecodedRecord& record, Visit&& visit) {
  uint64_t i = 0;
  while (i < record.count) {
    const Run run = RunAt(map, info.first + record.offsets[i]);
    // Offsets are 32-bit; a run may reach beyond what they can name.
    const uint64_t run_end = run.segment_element + run.element_count - info.first;
    uint64_t end = i + 1;
    if (info.first + record.offsets[record.count - 1] < run.segment_element + run.element_count) {
      end = record.count;
    } else {
      while (end < record.count && record.offsets[end] < run_end) ++end;
    }
    visit(run, i, end);
    i = end;
  }
}

template <uint32_t kUnitBytes, bool kStore, bool kWeigh, bool kBothLanes, typename LiveByte>
ChangeDigest Walk(const SegmentMap& map, std::span<const uint64_t> tensor_keys, const RecordInfo& info,
                  const DecodedRecord& record, std::span<const std::span<LiveByte>> live) {
  using Unit = typename UnitOf<kUnitBytes>::Type;
  ChangeDigest sum;
  const uint32_t* offsets = record.offsets.data();
  const uint8_t* xors = record.xors.data();
  ForEachRun(map, info, record, [&](const Run& run, uint64_t begin, uint64_t end) {
    const uint64_t key = tensor_keys[run.tensor_index];
    // Tensor byte of offset 0; wraps when the record began in an earlier tensor, and back when an offset is added.
    const uint64_t origin = (run.tensor_element - run.segment_element + info.first) * kUnitBytes;
    LiveByte* tensor = live[run.tensor_index].data();
    for (uint64_t i = begin; i < end; ++i) {
      if (i + kPrefetchDistance < end) {
        __builtin_prefetch(tensor + (origin + uint64_t{offsets[i + kPrefetchDistance]} * kUnitBytes), kStore ? 1 : 0);
      }
      const uint64_t at = origin + uint64_t{offsets[i]} * kUnitBytes;
      const Unit old_bits = LoadLe<Unit>(tensor + at);
      const Unit new_bits = static_cast<Unit>(old_bits ^ LoadLe<Unit>(xors + i * kUnitBytes));
      if constexpr (kStore) StoreLe<Unit>(tensor + at, new_bits);
      if constexpr (kWeigh) Weigh<kUnitBytes, kBothLanes>(key, at, old_bits, new_bits, &sum);
    }
  });
  return sum;
}

template <bool kStore, bool kWeigh, bool kBothLanes, typename LiveByte>
ChangeDigest WalkAnyUnit(const SegmentMap& map, std::span<const uint64_t> tensor_keys, const RecordInfo& info,
                         const DecodedRecord& record, std::span<const std::span<LiveByte>> live) {
  switch (map.unit_bytes()) {
    case 1:
      return Walk<1, kStore, kWeigh, kBothLanes>(map, tensor_keys, info, record, live);
    case 2:
      return Walk<2, kStore, kWeigh, kBothLanes>(map, tensor_keys, info, record, live);
    case 4:
      return Walk<4, kStore, kWeigh, kBothLanes>(map, tensor_keys, info, record, live);
    default:
      return Walk<8, kStore, kWeigh, kBothLanes>(map, tensor_keys, info, record, live);
  }
}

}  // namespace

ChangeDigest WeighRecord(const SegmentMap& map, std::span<const uint64_t> tensor_keys, const RecordInfo& info,
                         const DecodedRecord& record, TensorBytes live) {
  return WalkAnyUnit<false, true, true>(map, tensor_keys, info, record, live);
}

ChangeDigest XorRecord(const SegmentMap& map, std::span<const uint64_t> tensor_keys, const RecordInfo& info,
                       const DecodedRecord& record, MutableTensorBytes live, bool with_digest) {
  return with_digest ? WalkAnyUnit<true, true, false>(map, tensor_keys, info, record, live)
                     : WalkAnyUnit<true, false, false>(map, tensor_keys, info, record, live);
}

}  // namespace xorbit
