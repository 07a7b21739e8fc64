// Digest sums over changed elements: what a tile carries before and after, and a payload as its change.
#pragma once

#include <algorithm>
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

// TensorKeyOf for every tensor of the layout, in layout order.
std::vector<uint64_t> TensorKeysOf(const Layout& layout);

// Walks a segment forward and weighs elements: the fast path of encode, pre-flight and apply. Elements must ascend from call to
// call. The map and keys must outlive it. One thread.
class ElementWeigher {
 public:
  ElementWeigher(const SegmentMap& map, std::span<const uint64_t> tensor_keys) : map_(&map), tensor_keys_(tensor_keys) {}

  // Adds `count` elements of the segment, element_of(i) ascending, with these old and XOR bits (unit bytes each, low part of a
  // 64-bit value).
  template <uint32_t kUnitBytes, typename ElementOf, typename OldOf, typename XorOf>
  void Add(uint64_t count, ElementOf&& element_of, OldOf&& old_of, XorOf&& xor_of, ChangeDigest* sum) {
    for (uint64_t begin = 0; begin < count;) {
      RunOf(element_of(begin));
      const uint64_t end = EndInRun(begin, count, element_of);
      // Where changes share blocks, mixing the block index once for all of them is cheaper; elsewhere the branch that finds
      // out is dearer than mixing anew.
      const uint64_t block_count = (element_of(end - 1) - element_of(begin)) * kUnitBytes / kDigestBlockBytes + 1;
      if (end - begin >= 2 * block_count) {
        AddInRun<kUnitBytes, true>(begin, end, element_of, old_of, xor_of, sum);
      } else {
        AddInRun<kUnitBytes, false>(begin, end, element_of, old_of, xor_of, sum);
      }
      begin = end;
    }
  }

  // The run that holds `element`: where the live bytes of the element are.
  const Run& RunOf(uint64_t element) {
    if (element - run_.segment_element >= run_.element_count) Advance(element);
    return run_;
  }

 private:
  // The first index in (begin, count] whose element is past the current run, which holds the one at `begin`.
  template <typename ElementOf>
  uint64_t EndInRun(uint64_t begin, uint64_t count, ElementOf&& element_of) const {
    const auto inside = [&](uint64_t i) { return element_of(i) - run_.segment_element < run_.element_count; };
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

  template <uint32_t kUnitBytes, bool kKeepBlock, typename ElementOf, typename OldOf, typename XorOf>
  void AddInRun(uint64_t begin, uint64_t end, ElementOf&& element_of, OldOf&& old_of, XorOf&& xor_of, ChangeDigest* sum) const {
    const uint64_t to_tensor = run_.tensor_element - run_.segment_element;  // modulo 2^64
    const uint64_t key = key_;
    ChangeDigest local;
    uint64_t block = 0;
    BlockFactors factors = BlockFactorsOf(key, block);
    for (uint64_t i = begin; i < end; ++i) {
      const uint64_t at = (element_of(i) + to_tensor) * kUnitBytes;
      if (!kKeepBlock || at / kDigestBlockBytes != block) {
        block = at / kDigestBlockBytes;
        factors = BlockFactorsOf(key, block);
      }
      const uint64_t word = at / 4 % kDigestWordsPerBlock;
      const uint64_t old_bits = old_of(i);
      const uint64_t new_bits = old_bits ^ xor_of(i);
      if constexpr (kUnitBytes == 8) {
        AddWord(factors, word, old_bits & 0xffffffff, new_bits & 0xffffffff, &local);
        AddWord(factors, word + 1, old_bits >> 32, new_bits >> 32, &local);
      } else {
        const uint64_t shift = 8 * (at % 4);
        AddWord(factors, word, old_bits << shift, new_bits << shift, &local);
      }
    }
    *sum += local;
  }

  void Advance(uint64_t element) {
    // Mostly the next run of the same part, or one of the next parts.
    const size_t part_count = map_->parts().size();
    for (int step = 0; step < 4 && part_ < part_count && map_->part_start(part_ + 1) <= element; ++step) ++part_;
    if (part_ >= part_count || element < map_->part_start(part_) || element >= map_->part_start(part_ + 1)) {
      part_ = map_->PartAt(element);
    }
    run_ = RunInPart(*map_, part_, element);
    key_ = tensor_keys_[run_.tensor_index];
  }

  static void AddWord(const BlockFactors& factors, uint64_t word, uint64_t old_word, uint64_t new_word, ChangeDigest* sum) {
    const uint64_t weight0 = factors.lane0 * kDigestWordFactors[0][word];
    const uint64_t weight1 = factors.lane1 * kDigestWordFactors[1][word];
    sum->before += weight0 * old_word;
    sum->after += weight0 * new_word;
    sum->lane1_change += weight1 * (new_word - old_word);
  }

  const SegmentMap* map_;
  std::span<const uint64_t> tensor_keys_;
  size_t part_ = 0;  // of run_
  Run run_;
  uint64_t key_ = 0;
};

}  // namespace xorbit
