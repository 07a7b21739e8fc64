// Old bytes that lie in page-locked host memory come to the device through a window: two slots, of which one is filled while
// the other is compared. Planned once, so that nothing is allocated or decided while an update is encoded.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cuda/send_plan.h"

namespace xorbit::cuda {

inline constexpr uint32_t kWindowSlots = 2;
inline constexpr uint64_t kMinSlotBytes = kStripBytes + kStripAlignment;

// Contiguous old bytes, and where in their slot they go.
struct WindowCopy {
  uint64_t host_address;
  uint64_t slot_offset;
  uint64_t byte_count;
};

// Strips that are compared at once. Step i has slot i % kWindowSlots.
struct WindowStep {
  uint64_t first_strip;
  uint64_t end_strip;
  uint64_t first_copy;
  uint64_t end_copy;
};

struct WindowPlan {
  uint64_t slot_bytes = 0;
  std::vector<WindowStep> steps;  // in order, without holes
  std::vector<WindowCopy> copies;
};

// A slot begins at a multiple of kStripAlignment and has at least kMinSlotBytes. Bytes keep their place within
// kStripAlignment, so that lines remain as they are, and only bytes of strips are copied.
WindowPlan PlanWindow(const SendPlan& plan, uint64_t slot_bytes);

// The plan's strips with old bytes where the window holds them. `slots`: kWindowSlots of them, end to end.
std::vector<Strip> StripsInWindow(const SendPlan& plan, const WindowPlan& window, uint64_t slots_address);

}  // namespace xorbit::cuda
