// The addresses of planned changes, one after the other, whatever pieces they lie in.
//
// An engine may hold 200,000 pieces, in each of which a record changes five elements. A loop over each piece's changes ends
// where the processor does not expect it, and such a loop in every pass over a record cost more than all the rest of an apply.
// So addresses are listed first, in steps of eight that need no decision, and the passes run over the list.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "backend/cpu/live_address.h"
#include "base/bytes.h"
#include "codec/codec.h"
#include "tensor/live_planner.h"

namespace xorbit {

// One record, decoded and planned. Places: regions, then kept copies.
struct PlannedRecord {
  uint32_t unit_bytes;
  std::span<const uint64_t> tensor_keys;
  std::span<const MutableBytes> places;
  const DecodedRecord* record;
  const LivePlan* plan;
};

// Target i is change changes[i] of the record, at addresses[i]. What follows the last target repeats its address, so that loops
// may look ahead without asking.
struct LiveTargets {
  static constexpr uint32_t kCapacity = 4096;
  static constexpr uint32_t kStep = 8;

  uint32_t count = 0;
  std::array<uint64_t, kCapacity + kLiveLookAhead + kStep> addresses;
  std::array<uint32_t, kCapacity + kStep> changes;
};

// Lists the targets of a plan's stretches, in their order, kCapacity at a time. What is planned must outlive it.
class TargetLister {
 public:
  enum class Which : uint8_t { kAll, kWritten };

  TargetLister(const PlannedRecord& planned, Which which)
      : planned_(&planned),
        which_(which),
        stretch_(planned.plan->stretches.data()),
        end_(stretch_ + planned.plan->stretches.size()) {}

  // Sets `targets` to the next of them; false if there are no more.
  bool Next(LiveTargets* targets);

 private:
  const PlannedRecord* planned_;
  Which which_;
  const LiveStretch* stretch_;
  const LiveStretch* end_;
  uint32_t done_ = 0;  // changes of *stretch_ that have been listed
};

}  // namespace xorbit
