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
  TensorSpan* spans = nullptr;
  SendTile* tiles = nullptr;
  EncodeTable* tables = nullptr;
  uint8_t* cleared = nullptr;
  uint64_t cleared_bytes = 0;
  uint64_t used_bytes = 0;
  SendRoom room;
};

// Warps that diff at once at most, each of which may leave a piece of the unordered store unused.
inline constexpr uint64_t kMostDiffWarps = uint64_t{64} * 256;

// For an update of at most `change_count` changes. Without memory it only measures.
SendMemory PlaceSend(const SendPlan& plan, uint64_t change_count, uint8_t* memory_dev);

}  // namespace xorbit::cuda
