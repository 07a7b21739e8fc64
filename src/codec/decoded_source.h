// Decoded deltas as a source of changes: what feeds a fold, and what a file target patches.
//
// Any number of encoded segments, from any number of deltas and owners, are poured window by window into one target segment:
// each window is a scratch mask of 64 Ki elements, every decoded change is XORed into it, and what is left non-zero comes out.
// So changes that cancel vanish, deltas may be cut differently from each other and from the target, and memory is one window
// and one decoded record per input, whatever the size of the model.
//
//   owner 0 of delta 1   --+
//   owner 1 of delta 1   --+-->  window of the target segment  -->  WindowChanges
//   owner 0 of delta 2   --+
//
// With live memory for values, windows are poured in the order of the chain: when a delta's turn comes, an element's value is
// what live memory holds ^ what was poured before, so every change can be weighed on its way and every source record proven,
// although neither the states between nor any whole record exists anywhere. What this memory does not hold is left out.
//
// Within a part, canonical order and segment order agree, so the target's run [a, b) of a tensor is one contiguous range of
// each input part, found by arithmetic; records are decoded once, front to back.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "change/change_source.h"
#include "codec/codec.h"
#include "codec/reached_elements.h"
#include "codec/record_tally.h"
#include "tensor/live_memory.h"
#include "tensor/segment_bytes.h"

namespace xorbit {

// One encoded segment; both must outlive the source.
struct DecodedInput {
  const SegmentMap* map = nullptr;
  const SegmentDecoder* decoder = nullptr;
  size_t tally_index = 0;  // which input of a RecordTally it is
};

// Live memory in the state before the changes. Records are tallied over the elements that count in it.
struct LiveValues {
  LiveMemory memory;
  std::span<const uint64_t> tensor_keys;  // in layout order
  RecordTally* tally = nullptr;
};

// Which state the values given to a DecodedSource are of.
enum class ValueSide {
  kNone,    // no bytes: changes come without old values
  kBase,    // before the changes: old values are read as they are
  kTarget,  // after the changes: old = value ^ xor
};

class DecodedSource final : public ChangeSource {
 public:
  // Inputs must have the target's unit; elements of theirs that the target does not hold are left out. `values` is a view of
  // the target, and nothing for kNone. `reached`, if there is one, knows all the inputs' records. All must outlive the source.
  DecodedSource(const SegmentMap& target, std::vector<DecodedInput> inputs, ValueSide side, std::optional<SegmentBytes> values,
                const ReachedElements* reached = nullptr);
  // Values out of live memory; inputs come in the order of their deltas. When each window has been read, whatever else was read
  // twice, the tally holds each record's share of this target once.
  DecodedSource(const SegmentMap& target, std::vector<DecodedInput> inputs, const LiveValues& live,
                const ReachedElements* reached = nullptr);

  uint32_t unit_bytes() const override { return target_->unit_bytes(); }
  uint64_t element_count() const override { return target_->element_count(); }
  bool has_values() const override { return side_ != ValueSide::kNone; }
  bool MayChange(uint64_t first_window, uint64_t window_count) const override;
  // Next() fails with the decoder's kCorrupt.
  std::unique_ptr<ChangeCursor> Open(uint64_t first_window, uint64_t window_count) const override;

 private:
  template <typename Unit>
  friend class DecodedCursor;

  const SegmentMap* target_;
  std::vector<DecodedInput> inputs_;
  ValueSide side_;
  std::optional<SegmentBytes> values_;
  const ReachedElements* reached_;
  std::optional<LiveValues> live_;
  mutable std::vector<std::atomic<bool>> tallied_;  // by window; empty without live values
};

}  // namespace xorbit
