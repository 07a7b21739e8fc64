// What an update does to live memory, in live coordinates: for every element that it writes the address, the XOR and, where it
// is an undo log, the old value.
//
// It holds casts and halves of bytes like any other element, so nothing but loads and stores is left for the pause: no decoding
// and no search.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/live_targets.h"
#include "backend/cpu/touch_view.h"
#include "base/bytes.h"

namespace xorbit {

// What a log is for, which decides what it notes.
enum class TouchLogKind : uint8_t {
  kXors,         // addresses and XORs
  kUndo,         // old values besides
  kLastingUndo,  // and positions in places instead of addresses, which mean nothing to another process
};

// Not thread-safe, but logs of different records may be used at once.
class TouchLog {
 public:
  explicit TouchLog(TouchLogKind kind) : kind_(kind) {}

  // Appends what the record writes; the values that live memory holds now are the old ones.
  void Append(const PlannedRecord& planned);
  // Once everything is appended.
  void ShrinkToFit();
  uint64_t byte_count() const;

  // Valid until the log changes or is gone. `places` are those of the records, and outlive the view.
  TouchView view(std::span<const MutableBytes> places) const {
    return {blocks_, offsets_.data(), xors_.data(), kind_ == TouchLogKind::kXors ? nullptr : olds_.data(), places};
  }
  std::span<const uint32_t> offsets() const { return offsets_; }
  ConstBytes xors() const { return xors_; }
  ConstBytes olds() const { return olds_; }
  // What Xor() of the view meets: the old values, weighted by their addresses. Not of kLastingUndo.
  uint64_t before() const { return before_; }

 private:
  void Add(const PlannedRecord& planned, uint32_t place_index, uint64_t position, uint32_t width_bits, uint64_t old_bits,
           uint64_t xor_bits);
  template <typename Unit>
  void AppendUnits(const PlannedRecord& planned);

  TouchLogKind kind_;
  std::vector<TouchBlock> blocks_;
  std::vector<uint32_t> offsets_;
  Buffer xors_;
  Buffer olds_;
  uint64_t before_ = 0;
};

}  // namespace xorbit
