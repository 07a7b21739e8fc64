// Digest sums over changed elements: what a tile carries before and after, and a payload as its change.
#pragma once

#include <cstdint>
#include <span>

#include "change/state_digest.h"
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

// Walks a segment forward and weighs elements: the fast path of encode, pre-flight and apply. Elements must ascend from call to
// call. The map and keys must outlive it. One thread.
class ElementWeigher {
 public:
  ElementWeigher(const SegmentMap& map, std::span<const uint64_t> tensor_keys) : map_(&map), tensor_keys_(tensor_keys) {}

  // Adds `count` elements of the segment, element_of(i) ascending, with these old and XOR bits (unit bytes each, low part of a
  // 64-bit value).
  template <uint32_t kUnitBytes, typename ElementOf, typename OldOf, typename XorOf>
  void Add(uint64_t count, ElementOf&& element_of, OldOf&& old_of, XorOf&& xor_of, ChangeDigest* sum) {
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t element = element_of(i);
      if (element - run_.segment_element >= run_.element_count) Advance(element);
      const uint64_t at = (run_.tensor_element + (element - run_.segment_element)) * kUnitBytes;
      const uint64_t old_bits = old_of(i);
      const uint64_t new_bits = old_bits ^ xor_of(i);
      if constexpr (kUnitBytes == 8) {
        AddWord(at / 4, old_bits & 0xffffffff, new_bits & 0xffffffff, sum);
        AddWord(at / 4 + 1, old_bits >> 32, new_bits >> 32, sum);
      } else {
        const uint64_t shift = 8 * (at % 4);
        AddWord(at / 4, old_bits << shift, new_bits << shift, sum);
      }
    }
  }

  // The run that holds `element`: where the live bytes of the element are.
  const Run& RunOf(uint64_t element) {
    if (element - run_.segment_element >= run_.element_count) Advance(element);
    return run_;
  }

 private:
  void Advance(uint64_t element) {
    run_ = RunAt(*map_, element);
    key_ = tensor_keys_[run_.tensor_index];
  }
  void AddWord(uint64_t word_index, uint64_t old_word, uint64_t new_word, ChangeDigest* sum) const {
    const StateDigest weight = WordWeight(key_, word_index);
    sum->before += weight.lane0 * old_word;
    sum->after += weight.lane0 * new_word;
    sum->lane1_change += weight.lane1 * (new_word - old_word);
  }

  const SegmentMap* map_;
  std::span<const uint64_t> tensor_keys_;
  Run run_;
  uint64_t key_ = 0;
};

}  // namespace xorbit
