#include "backend/cpu/record_apply.h"

#include "base/unit.h"
#include "codec/change_digest.h"

namespace xorbit {
namespace {

// Far enough ahead that a cache line from memory is there when its element's turn comes, near enough to stay in the cache.
constexpr uint64_t kPrefetchDistance = 24;

// Splits a record into runs that are contiguous in a tensor and calls visit(run, first change, one past the last) for each.
template <typename Visit>
void ForEachRun(const SegmentMap& map, const RecordInfo& info, const DecodedRecord& record, Visit&& visit) {
  RunFinder runs(map);
  uint64_t i = 0;
  while (i < record.count) {
    const Run& run = runs.Find(info.first + record.offsets[i]);
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

template <typename Unit, bool kStore, bool kWeigh, bool kBothLanes, typename LiveByte>
ChangeDigest Walk(const SegmentMap& map, std::span<const uint64_t> tensor_keys, const RecordInfo& info,
                  const DecodedRecord& record, std::span<const std::span<LiveByte>> live) {
  ChangeDigest sum;
  const uint32_t* offsets = record.offsets.data();
  const uint8_t* xors = record.xors.data();
  ForEachRun(map, info, record, [&](const Run& run, uint64_t begin, uint64_t end) {
    const uint64_t key = tensor_keys[run.tensor_index];
    // Tensor byte of offset 0; wraps when the record began in an earlier tensor, and back when an offset is added.
    const uint64_t origin = (run.tensor_element - run.segment_element + info.first) * sizeof(Unit);
    LiveByte* tensor = live[run.tensor_index].data();
    for (uint64_t i = begin; i < end; ++i) {
      if (i + kPrefetchDistance < end) {
        __builtin_prefetch(tensor + (origin + uint64_t{offsets[i + kPrefetchDistance]} * sizeof(Unit)), kStore ? 1 : 0);
      }
      const uint64_t at = origin + uint64_t{offsets[i]} * sizeof(Unit);
      const Unit old_bits = LoadLe<Unit>(tensor + at);
      const Unit new_bits = static_cast<Unit>(old_bits ^ LoadLe<Unit>(xors + i * sizeof(Unit)));
      if constexpr (kStore) StoreLe<Unit>(tensor + at, new_bits);
      if constexpr (kWeigh) {
        AddElement<Unit, kBothLanes>(BlockFactorsOf(key, at / kDigestBlockBytes), at, old_bits, new_bits, &sum);
      }
    }
  });
  return sum;
}

}  // namespace

ChangeDigest WeighRecord(const SegmentMap& map, std::span<const uint64_t> tensor_keys, const RecordInfo& info,
                         const DecodedRecord& record, TensorBytes live) {
  return WithUnit(map.unit_bytes(),
                  [&]<typename Unit>() { return Walk<Unit, false, true, true>(map, tensor_keys, info, record, live); });
}

ChangeDigest XorRecord(const SegmentMap& map, std::span<const uint64_t> tensor_keys, const RecordInfo& info,
                       const DecodedRecord& record, MutableTensorBytes live, bool with_digest) {
  return WithUnit(map.unit_bytes(), [&]<typename Unit>() {
    return with_digest ? Walk<Unit, true, true, false>(map, tensor_keys, info, record, live)
                       : Walk<Unit, true, false, false>(map, tensor_keys, info, record, live);
  });
}

}  // namespace xorbit
