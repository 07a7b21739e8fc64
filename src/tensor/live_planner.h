// From the changed elements of a tensor to where they lie in live memory: the search that pre-flight, apply and folds share.
//
// What a record changes is first planned as stretches (changes whose elements are contiguous in the tensor and in live memory)
// and then run in one go, so that loops over many short stretches can ask for memory as far ahead as those over a long one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/live_cursor.h"
#include "tensor/live_map.h"

namespace xorbit {

// Changes [begin, end) of the caller's list. A change with offset o is the element at byte canonical_origin + o * unit_bytes of
// its tensor and at byte live_origin + o * unit_bytes of its place, modulo 2^64.
struct LiveStretch {
  uint32_t tensor_index = 0;
  uint32_t place_index = 0;  // region, or regions().size() + index into kept_tensors()
  uint32_t begin = 0;
  uint32_t end = 0;
  uint64_t canonical_origin = 0;
  uint64_t live_origin = 0;
  bool counted = false;  // enters the digests of records
  bool written = false;  // false: an alias, whose bytes are written through another tensor
};

// The same for what is cast from a kept copy: live_origin counts bytes of the cast's result, result_bytes apart. The stretch of
// the kept copy itself is among the plan's stretches, uncounted.
struct CastStretch {
  LiveStretch at;
  uint32_t kept_place_index = 0;
  Cast cast = Cast::kCopy;
};

// One granule of one change, of tensors whose granules are smaller than their units.
struct LiveGranule {
  uint32_t tensor_index = 0;
  uint32_t place_index = 0;
  uint32_t change = 0;
  uint8_t bits = 0;   // 4, 8, 16 or 32
  uint8_t shift = 0;  // in the element
  bool counted = false;
  bool written = false;
  uint64_t canonical_byte = 0;  // of the element
  uint64_t live_bit = 0;
};

struct LivePlan {
  std::vector<LiveStretch> stretches;
  std::vector<CastStretch> casts;
  std::vector<LiveGranule> granules;
  bool has_copies = false;  // some element may lie in more than one place

  void Clear();
};

// The map must outlive it. One thread; reused so that hot loops do not allocate.
class LivePlanner {
 public:
  explicit LivePlanner(const LiveMap& map) : map_(&map) {}

  // Adds changes [begin, end), begin < end, of one tensor to `plan`: change i is element to_tensor + offsets[i], modulo 2^64;
  // offsets ascend strictly. What this memory does not hold is left out.
  void Add(uint32_t tensor_index, uint32_t unit_bytes, uint64_t to_tensor, const uint32_t* offsets, uint32_t begin,
           uint32_t end, LivePlan* plan);

 private:
  static constexpr uint32_t kNoTensor = UINT32_MAX;

  struct ShadowCursor {
    const ShadowBinding* shadow;
    LiveCursor cursor;
  };
  struct Changes {
    uint32_t unit_bytes;
    uint64_t to_tensor;
    const uint32_t* offsets;
    uint32_t begin;
    uint32_t end;
  };

  void SetTensor(uint32_t tensor_index);
  LiveStretch StretchOf(const LiveRun& run, const Changes& changes, uint32_t begin, uint32_t end,
                        uint64_t live_unit_bytes) const;
  // Calls take(run, begin, end) for the changes that lie in a run of the cursor's.
  template <typename Take>
  static void ForEachRun(LiveCursor* cursor, const Changes& changes, Take&& take);
  void AddGranules(LiveCursor* cursor, const Changes& changes, LivePlan* plan) const;

  const LiveMap* map_;
  uint32_t tensor_index_ = kNoTensor;
  bool written_ = false;
  bool kept_counted_ = false;
  uint32_t kept_place_ = kNoTensor;
  uint32_t granule_bits_ = 0;
  std::vector<LiveCursor> cursors_;  // one a track
  std::vector<ShadowCursor> shadow_cursors_;
};

}  // namespace xorbit
