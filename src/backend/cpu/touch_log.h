// What an update does to live memory, in live coordinates: for every element that it writes the address, the XOR and, where it
// is an undo log, the old value.
//
// It holds casts and halves of bytes like any other element, so nothing but loads and stores is left for the pause: no decoding
// and no search. A block is a list of elements of one width within 4 GiB of each other.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/live_kernels.h"
#include "base/bytes.h"

namespace xorbit {

// Not thread-safe, but logs of different records may be used at once.
class TouchLog {
 public:
  explicit TouchLog(bool with_olds) : with_olds_(with_olds) {}

  // Appends what the record writes; the values that live memory holds now are the old ones.
  void Append(const PlannedRecord& planned);
  // Once everything is appended.
  void ShrinkToFit();
  uint64_t byte_count() const;

  // Without old values. XORs everything and says whether it met the values that were there when it was appended. Whatever it
  // says, doing it again takes it back.
  bool Xor() const;
  // With old values. Stores the new values over old or new ones; false, and stores nothing there, where it meets others.
  bool StoreNew() const;
  // Takes StoreNew back, whether or not it came to its end: where new values are, stores the old ones.
  void StoreOld() const;

 private:
  // Replaces every element by choose(the value met, the old one, the new one).
  template <typename Choose>
  void StoreEach(Choose&& choose) const;

  struct Block {
    uint64_t base = 0;  // address of offset 0: of bytes, or of half bytes in a block of these
    uint64_t first = 0;
    uint64_t count = 0;
    uint64_t value_offset = 0;  // into xors_ and olds_
    uint32_t width_bits = 0;    // 4, 8, 16, 32 or 64
  };

  void Add(uint64_t position, uint32_t width_bits, uint64_t old_bits, uint64_t xor_bits);
  template <typename Unit>
  void AppendUnits(const PlannedRecord& planned);

  bool with_olds_;
  std::vector<Block> blocks_;
  std::vector<uint32_t> offsets_;
  Buffer xors_;
  Buffer olds_;
  uint64_t before_ = 0;  // weighted sum of all old values
};

}  // namespace xorbit
