// Digest sums over changed elements: what a tile carries before and after, and a payload as its change.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/unit.h"
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

// Walks a segment forward and weighs changes whose old values stand beside them. Elements must ascend from call to call. The
// map and keys must outlive it. One thread.
class ElementWeigher {
 public:
  ElementWeigher(const SegmentMap& map, std::span<const uint64_t> tensor_keys) : runs_(map), tensor_keys_(tensor_keys) {}

  // Adds `count` elements of the segment, element_of(i) ascending; olds and xors hold unit_bytes little-endian bytes each.
  template <typename ElementOf>
  void Add(uint32_t unit_bytes, uint64_t count, ElementOf&& element_of, const uint8_t* olds, const uint8_t* xors,
           ChangeDigest* sum) {
    WithUnit(unit_bytes, [&]<typename Unit>() { AddUnits<Unit>(count, element_of, olds, xors, sum); });
  }

 private:
  template <typename Unit, typename ElementOf>
  void AddUnits(uint64_t count, ElementOf&& element_of, const uint8_t* olds, const uint8_t* xors, ChangeDigest* sum) {
    for (uint64_t begin = 0; begin < count;) {
      const Run& run = runs_.Find(element_of(begin));
      const uint64_t end = EndInRun(run, begin, count, element_of);
      // Where changes share blocks, mixing the block index once for all of them is cheaper; elsewhere the branch that finds
      // out is dearer than mixing anew.
      const uint64_t block_count = (element_of(end - 1) - element_of(begin)) * sizeof(Unit) / kDigestBlockBytes + 1;
      if (end - begin >= 2 * block_count) {
        AddInRun<Unit, true>(run, begin, end, element_of, olds, xors, sum);
      } else {
        AddInRun<Unit, false>(run, begin, end, element_of, olds, xors, sum);
      }
      begin = end;
    }
  }

  // The first index in (begin, count] whose element is past the run, which holds the one at `begin`.
  template <typename ElementOf>
  static uint64_t EndInRun(const Run& run, uint64_t begin, uint64_t count, ElementOf&& element_of) {
    const auto inside = [&](uint64_t i) { return element_of(i) - run.segment_element < run.element_count; };
    if (inside(count - 1)) return count;
    uint64_t step = 1;
    while (begin + step < count && inside(begin + step)) step *= 2;
    uint64_t low = begin + step / 2;  // inside
    uint64_t high = std::min(begin + step, count - 1);
    while (high - low > 1) {
      const uint64_t middle = low + (high - low) / 2;
      (inside(middle) ? low : high) = middle;
    }
    return high;
  }

  template <typename Unit, bool kKeepBlock, typename ElementOf>
  void AddInRun(const Run& run, uint64_t begin, uint64_t end, ElementOf&& element_of, const uint8_t* olds, const uint8_t* xors,
                ChangeDigest* sum) const {
    const uint64_t to_tensor = run.tensor_element - run.segment_element;  // modulo 2^64
    const uint64_t key = tensor_keys_[run.tensor_index];
    ChangeDigest local;
    uint64_t block = 0;
    BlockFactors factors = BlockFactorsOf(key, block);
    for (uint64_t i = begin; i < end; ++i) {
      const uint64_t at = (element_of(i) + to_tensor) * sizeof(Unit);
      if (!kKeepBlock || at / kDigestBlockBytes != block) {
        block = at / kDigestBlockBytes;
        factors = BlockFactorsOf(key, block);
      }
      const uint64_t old_bits = LoadLe<Unit>(olds + i * sizeof(Unit));
      const uint64_t xor_bits = LoadLe<Unit>(xors + i * sizeof(Unit));
      AddElement<Unit>(factors, at, old_bits, old_bits ^ xor_bits, &local);
    }
    *sum += local;
  }

  RunFinder runs_;
  std::span<const uint64_t> tensor_keys_;
};

}  // namespace xorbit
