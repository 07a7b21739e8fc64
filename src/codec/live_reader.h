// Canonical values of elements, read out of live memory through its map.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "tensor/live_memory.h"
#include "tensor/live_planner.h"

namespace xorbit {

// What one memory knows of an element. Bits outside `held` are 0 in `bits`; `counted` is a subset of `held`, and whole or
// nothing unless the tensor's granules are smaller than its units.
template <typename Unit>
struct LiveValue {
  Unit bits = 0;
  Unit held = 0;
  Unit counted = 0;
};

// One thread. What `live` points to must outlive it.
class LiveReader {
 public:
  explicit LiveReader(const LiveMemory& live);

  // (*values)[i] = element to_tensor + offsets[i] of the tensor; offsets ascend strictly. Of copies, any one is read.
  template <typename Unit>
  void Read(uint32_t tensor_index, uint64_t to_tensor, std::span<const uint32_t> offsets, std::vector<LiveValue<Unit>>* values);

 private:
  LivePlanner planner_;
  LivePlan plan_;
  std::vector<MutableBytes> places_;
};

}  // namespace xorbit
