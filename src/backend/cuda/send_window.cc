#include "backend/cuda/send_window.h"

#include <cassert>

namespace xorbit::cuda {
namespace {

// The next place from `at` on that is as far behind a border of strips as the address.
uint64_t PlaceLike(uint64_t address, uint64_t at) { return at + (address - at) % kStripAlignment; }

uint64_t OldBytesOf(const Strip& strip, uint32_t unit_bytes) { return uint64_t{strip.element_count} * unit_bytes; }

}  // namespace

WindowPlan PlanWindow(const SendPlan& plan, uint64_t slot_bytes) {
  assert(slot_bytes >= kMinSlotBytes && slot_bytes % kStripAlignment == 0);
  WindowPlan window;
  window.slot_bytes = slot_bytes;
  uint64_t used = 0;
  for (uint64_t i = 0; i < plan.strips.size(); ++i) {
    const Strip& strip = plan.strips[i];
    const uint64_t byte_count = OldBytesOf(strip, plan.unit_bytes);
    uint64_t place = PlaceLike(strip.old_address, used);
    if (window.steps.empty() || place + byte_count > slot_bytes) {
      window.steps.push_back({i, i, window.copies.size(), window.copies.size()});
      place = PlaceLike(strip.old_address, 0);
    }
    WindowStep& step = window.steps.back();
    WindowCopy* const last = step.first_copy < step.end_copy ? &window.copies.back() : nullptr;
    if (last != nullptr && last->host_address + last->byte_count == strip.old_address &&
        last->slot_offset + last->byte_count == place) {
      last->byte_count += byte_count;
    } else {
      window.copies.push_back({strip.old_address, place, byte_count});
      ++step.end_copy;
    }
    used = place + byte_count;
    step.end_strip = i + 1;
  }
  return window;
}

std::vector<Strip> StripsInWindow(const SendPlan& plan, const WindowPlan& window, uint64_t slots_address) {
  std::vector<Strip> strips = plan.strips;
  for (uint64_t s = 0; s < window.steps.size(); ++s) {
    const WindowStep& step = window.steps[s];
    const uint64_t slot_address = slots_address + s % kWindowSlots * window.slot_bytes;
    uint64_t c = step.first_copy;
    for (uint64_t i = step.first_strip; i < step.end_strip; ++i) {
      const uint64_t host_address = strips[i].old_address;
      while (host_address - window.copies[c].host_address >= window.copies[c].byte_count) ++c;
      strips[i].old_address = slot_address + window.copies[c].slot_offset + (host_address - window.copies[c].host_address);
    }
  }
  return strips;
}

}  // namespace xorbit::cuda
