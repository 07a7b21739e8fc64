// Stores and checks over a list of touched elements: for each where it lies, the XOR, and in an undo log its old value.
//
// The list may come from this process (TouchLog) or out of memory that outlived another one (undo_log.h); the loops are the
// same. They trust it, so it lies where nobody else can write. A block is a list of elements of one width within 4 GiB of each
// other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace xorbit {

// As it stands in undo logs (docs/formats/undo-log.md).
struct TouchBlock {
  static constexpr uint32_t kNoPlace = UINT32_MAX;

  uint64_t base;          // of offset 0, modulo 2^64: in its place or, with kNoPlace, an address; bytes, or half bytes
  uint64_t first;         // of the list's offsets
  uint64_t count;         // of elements
  uint64_t value_offset;  // into XORs and old values
  uint32_t width_bits;    // 4, 8, 16, 32 or 64
  uint32_t place_index;   // regions, then kept copies
};
static_assert(sizeof(TouchBlock) == 40 && offsetof(TouchBlock, width_bits) == 32);

// Of an element in XORs and old values.
constexpr uint32_t ValueBytesOf(uint32_t width_bits) { return width_bits < 8 ? 1 : width_bits / 8; }

// Not thread-safe, but views of different blocks may be used at once.
struct TouchView {
  std::span<const TouchBlock> blocks;
  const uint32_t* offsets = nullptr;
  const uint8_t* xors = nullptr;
  const uint8_t* olds = nullptr;  // null: no undo log, so Xor alone may be called
  std::span<const MutableBytes> places;

  // XORs everything and returns the values that it met, weighted by their addresses. Doing it again takes it back.
  uint64_t Xor() const;
  // Stores the new values over old or new ones; false, and stores nothing there, where it meets others.
  bool StoreNew() const;
  // Takes StoreNew back, whether or not it came to its end: where new values are, stores the old ones.
  void StoreOld() const;
  // Whether every element holds its old or its new value. Reads only.
  bool HoldsOldOrNew() const;

 private:
  uint64_t BaseOf(const TouchBlock& block) const;
  template <typename Change, typename Met>
  void ForEach(Change&& change, Met&& met) const;
  // Replaces every element by choose(the value met, the old one, the new one).
  template <typename Choose>
  void StoreEach(Choose&& choose) const;
};

}  // namespace xorbit
