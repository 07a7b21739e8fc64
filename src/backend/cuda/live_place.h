// From a segment's element to where it lies: in live memory, and in its tensor, whose bytes the state digest counts.
//
// A tile's elements ascend and mostly stay in one span, so each lane keeps the span it was in; the first one of a tile was
// found while preparing.
#pragma once

#include "backend/cuda/update_on_device.h"
#include "backend/cuda/warp.h"
#include "change/state_digest.h"

namespace xorbit::cuda {

// One lane's own.
class PlaceFinder {
 public:
  XORBIT_DEVICE PlaceFinder(const SegmentOnDevice& segment, uint64_t span_index)
      : spans_(segment.spans), span_count_(segment.span_count) {
    Take(span_index);
  }

  // Any element of the segment; finding ones that ascend is fast.
  XORBIT_DEVICE void Seek(uint64_t element) {
    if (element - first_ >= count_) Advance(element);
  }
  // Of the span that holds the element sought last.
  XORBIT_DEVICE bool is_local() const { return live_address_ != 0; }
  XORBIT_DEVICE uint64_t LiveAddressOf(uint64_t element, uint32_t unit_bytes) const {
    return live_address_ + (element - first_) * unit_bytes;
  }
  XORBIT_DEVICE uint64_t TensorByteOf(uint64_t element, uint32_t unit_bytes) const {
    return tensor_byte_ + (element - first_) * unit_bytes;
  }
  XORBIT_DEVICE uint64_t tensor_key() const { return tensor_key_; }
  // Whether some words of the span reach out of its region, which region_index() then tells.
  XORBIT_DEVICE bool is_ragged() const { return ragged_; }
  XORBIT_DEVICE uint64_t region_index() const { return spans_[index_].region_index; }

 private:
  XORBIT_DEVICE void Take(uint64_t index) {
    index_ = index;
    first_ = spans_[index].first;
    count_ = spans_[index + 1].first - first_;
    live_address_ = spans_[index].live_address;
    tensor_byte_ = spans_[index].tensor_byte;
    tensor_key_ = spans_[index].tensor_key;
    ragged_ = spans_[index].region_index != kNotRagged;
  }

  XORBIT_DEVICE void Advance(uint64_t element) {
    // Mostly the next span or one soon after; else by halves in all of them.
    uint64_t low = index_;
    for (uint32_t step = 0; step < 4 && low + 1 < span_count_ && spans_[low + 1].first <= element; ++step) ++low;
    if (element < spans_[low].first || element >= spans_[low + 1].first) {
      low = 0;
      for (uint64_t high = span_count_; high - low > 1;) {
        const uint64_t middle = low + (high - low) / 2;
        if (spans_[middle].first <= element) {
          low = middle;
        } else {
          high = middle;
        }
      }
    }
    Take(low);
  }

  const LiveSpan* spans_;
  uint64_t span_count_;
  uint64_t index_ = 0;
  uint64_t first_ = 0;
  uint64_t count_ = 0;
  uint64_t live_address_ = 0;
  uint64_t tensor_byte_ = 0;
  uint64_t tensor_key_ = 0;
  bool ragged_ = false;
};

inline constexpr uint32_t kWordFactorCount = 2 * kDigestWordsPerBlock;

// g[L][k] at 16 L + k: computed into fast memory once a block, because a table of constants would be read one lane at a time.
XORBIT_DEVICE uint64_t WordFactorAt(uint32_t index) { return SplitMix64(0x786f72626974 + index) | 1; }

// What an element counts in both lanes of the state digest, for any of its values.
class ElementWeight {
 public:
  // `at`: byte of its tensor. word_factors: see WordFactorAt.
  XORBIT_DEVICE ElementWeight(uint64_t tensor_key, uint64_t at, const uint64_t* word_factors)
      : factors_(BlockFactorsOf(tensor_key, at / kDigestBlockBytes)),
        word_factors_(word_factors + at / 4 % kDigestWordsPerBlock),
        shift_(static_cast<uint32_t>(at % 4 * 8)) {}

  template <typename Unit>
  XORBIT_DEVICE uint64_t Lane0(Unit bits) const {
    return factors_.lane0 * Weigh(bits, word_factors_);
  }
  template <typename Unit>
  XORBIT_DEVICE uint64_t Lane1(Unit bits) const {
    return factors_.lane1 * Weigh(bits, word_factors_ + kDigestWordsPerBlock);
  }

 private:
  template <typename Unit>
  XORBIT_DEVICE uint64_t Weigh(Unit bits, const uint64_t* word_factors) const {
    if constexpr (sizeof(Unit) == 8) return word_factors[0] * (bits & 0xffffffff) + word_factors[1] * (bits >> 32);
    return word_factors[0] * (uint64_t{bits} << shift_);
  }

  BlockFactors factors_;
  const uint64_t* word_factors_;
  uint32_t shift_;
};

}  // namespace xorbit::cuda
