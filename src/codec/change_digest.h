// Digest sums over changed elements: what a tile carries before and after, and a payload as its change.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "change/state_digest.h"
#include "tensor/layout.h"
#include "tensor/segment.h"

namespace xorbit {

// Lane 0 before and after, and lane 1 of the difference (lane 0's is after - before).
struct ChangeDigest {
  uint64_t before = 0;
  uint64_t after = 0;
  uint64_t lane1_change = 0;

  StateDigest change() const { return {after - before, lane1_change}; }
  ChangeDigest& operator+=(const ChangeDigest& other) {
    before += other.before;
    after += other.after;
    lane1_change += other.lane1_change;
    return *this;
  }
};

// Whether a record's digests may be the same before and after. Writers cut records until they differ, but one element of 8
// bytes, whose two words cancel, cannot be cut. Such a record does not tell old from new; the payload's two lanes still do.
constexpr bool MayDigestsBeEqual(uint32_t unit_bytes, uint64_t change_count) { return unit_bytes == 8 && change_count == 1; }

// TensorKeyOf for every tensor of the layout, in layout order.
std::vector<uint64_t> TensorKeysOf(const Layout& layout);

// Adds one element, before and after, that lies at byte `at` of its tensor, in a block with these factors. What every sum over
// changes is made of: the encoders' and file targets' (ElementWeigher) and the receivers' (backend/cpu/record_apply).
template <typename Unit, bool kBothLanes = true>
inline void AddElement(const BlockFactors& factors, uint64_t at, uint64_t old_bits, uint64_t new_bits, ChangeDigest* sum) {
  const auto add_word = [&](uint64_t word, uint64_t old_word, uint64_t new_word) {
    const uint64_t weight0 = factors.lane0 * kDigestWordFactors[0][word];
    sum->before += weight0 * old_word;
    sum->after += weight0 * new_word;
    if constexpr (kBothLanes) sum->lane1_change += factors.lane1 * kDigestWordFactors[1][word] * (new_word - old_word);
  };
  const uint64_t word = at / 4 % kDigestWordsPerBlock;
  if constexpr (sizeof(Unit) == 8) {
    add_word(word, old_bits & 0xffffffff, new_bits & 0xffffffff);
    add_word(word + 1, old_bits >> 32, new_bits >> 32);
  } else {
    const uint64_t shift = 8 * (at % 4);
    add_word(word, old_bits << shift, new_bits << shift);
  }
}

// Changes within one contiguous stretch of a tensor, their old values beside them.
struct ChangeStretch {
  uint64_t tensor_key = 0;
  uint64_t origin = 0;  // tensor byte of offset 0, modulo 2^64: the stretch may begin after it
  uint64_t count = 0;
  const uint32_t* offsets = nullptr;  // in elements, ascending
  const uint8_t* olds = nullptr;      // unit_bytes little-endian bytes each
  const uint8_t* xors = nullptr;      // likewise
};

// Adds the elements of a stretch to `sum`. All implementations give the same sums.
using WeighStretch = void (*)(uint32_t unit_bytes, const ChangeStretch& stretch, ChangeDigest* sum);
void WeighStretchPortable(uint32_t unit_bytes, const ChangeStretch& stretch, ChangeDigest* sum);

// Walks a segment forward and weighs changes whose old values stand beside them. Elements must ascend from call to call. The
// map and keys must outlive it. One thread.
class ElementWeigher {
 public:
  ElementWeigher(const SegmentMap& map, std::span<const uint64_t> tensor_keys, WeighStretch weigh = &WeighStretchPortable)
      : unit_bytes_(map.unit_bytes()), runs_(map), tensor_keys_(tensor_keys), weigh_(weigh) {}

  // Adds elements first + offsets[i], ascending; olds and xors hold unit_bytes little-endian bytes each.
  void Add(uint64_t first, std::span<const uint32_t> offsets, const uint8_t* olds, const uint8_t* xors, ChangeDigest* sum);
  // The same for positions in a window.
  void Add(uint64_t first, std::span<const uint16_t> positions, const uint8_t* olds, const uint8_t* xors, ChangeDigest* sum);

 private:
  uint32_t unit_bytes_;
  RunFinder runs_;
  std::span<const uint64_t> tensor_keys_;
  WeighStretch weigh_;
};

}  // namespace xorbit
