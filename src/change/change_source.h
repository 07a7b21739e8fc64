// Changes of a segment, window by window: what flows from a diff (or a fold) into an encoder.
//
// A segment is cut into a fixed grid of windows of 64 Ki elements. The changes of a window are the positions of its elements
// with new != old, ascending, as 16-bit offsets from the window's start, and for each the XOR of new and old. Where the values
// are at hand, the old value goes along, because tile digests need it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/checked_math.h"

namespace xorbit {

inline constexpr uint64_t kWindowElements = 65536;

constexpr uint64_t WindowCountOf(uint64_t element_count) { return DivideRoundUp(element_count, kWindowElements); }
constexpr uint64_t WindowElementsAt(uint64_t element_count, uint64_t window_index) {
  return std::min(kWindowElements, element_count - window_index * kWindowElements);
}

// Changes of one window, structure of arrays; xors and olds hold unit_bytes little-endian bytes a change. olds is empty when
// the source has no values. Reused from window to window so that the hot loop does not allocate.
struct WindowChanges {
  uint32_t count = 0;
  std::vector<uint16_t> positions;  // at least `count` entries are valid; the vector may be larger
  std::vector<uint8_t> xors;        // likewise count * unit_bytes
  std::vector<uint8_t> olds;        // likewise, or empty

  // Room for a full window, so that writers need no bounds checks. Spare entries let SIMD writers store whole vectors.
  void Reserve(uint32_t unit_bytes, bool with_olds) {
    constexpr size_t kSpare = 64;
    positions.resize(kWindowElements + kSpare);
    xors.resize((kWindowElements + kSpare) * unit_bytes);
    olds.resize(with_olds ? (kWindowElements + kSpare) * unit_bytes : 0);
  }
};

// Delivers the windows of a range in order. Used by one thread.
class ChangeCursor {
 public:
  ChangeCursor() = default;
  ChangeCursor(const ChangeCursor&) = delete;
  ChangeCursor& operator=(const ChangeCursor&) = delete;
  virtual ~ChangeCursor() = default;
  // Fills `changes` (already Reserved) with the next window of the range. Calling it past the end is a bug.
  virtual Status Next(WindowChanges* changes) = 0;
};

// Where changes come from: two buffers, decoded payloads, a merge of several. Open may be called from several threads, for any
// ranges, more than once: an encoder reads twice when the changes do not fit its memory budget, and gets the same both times.
class ChangeSource {
 public:
  ChangeSource() = default;
  ChangeSource(const ChangeSource&) = delete;
  ChangeSource& operator=(const ChangeSource&) = delete;
  virtual ~ChangeSource() = default;
  virtual uint32_t unit_bytes() const = 0;
  virtual uint64_t element_count() const = 0;
  virtual bool has_values() const = 0;  // whether olds are filled
  // False only if no element of windows [first_window, first_window + window_count) changes, and the source knows without
  // looking at each: then a reader need not either.
  virtual bool MayChange(uint64_t /*first_window*/, uint64_t /*window_count*/) const { return true; }
  // A cursor over windows [first_window, first_window + window_count). The source must outlive it.
  virtual std::unique_ptr<ChangeCursor> Open(uint64_t first_window, uint64_t window_count) const = 0;
};

}  // namespace xorbit
