// Where everything of a segment's sender lies in one piece of device memory.
#pragma once

#include <cstdint>

#include "backend/cuda/send_plan.h"
#include "backend/cuda/send_segment.h"

namespace xorbit::cuda {

// Places that kernels write to and that must be zero before FindChanges lie end to end.
struct SendMemory {
  SendOnDevice device{};
  Strip* strips = nullptr;
  Strip* home_strips = nullptr;  // of old bytes that come through the window: where they are
  uint8_t* slots = nullptr;
  TensorSpan* spans = nullptr;
  SendTile* tiles = nullptr;
  SendTable* tables = nullptr;
  uint8_t* cleared = nullptr;
  uint64_t cleared_bytes = 0;
  uint64_t used_bytes = 0;
  SendRoom room;
};

// What there must be room for.
struct SendSizes {
  uint64_t change_count = 0;
  uint64_t halved_count = 64;  // tiles that are cut because digests ask for it: mostly none
  uint64_t slot_bytes = 0;     // of each slot of the window for old bytes in host memory, see PlanWindow; 0: none are there
};

// Warps that diff at once at most, each of which may leave a piece of the unordered store unused.
inline constexpr uint64_t kMostDiffWarps = uint64_t{64} * 256;

// Without memory it only measures.
SendMemory PlaceSend(const SendPlan& plan, const SendSizes& sizes, uint8_t* memory_dev);

}  // namespace xorbit::cuda
