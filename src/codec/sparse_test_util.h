// What the codecs' tests share: segments from lists of changes, and a decoder's answer as one value to compare.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "change/list_source.h"
#include "codec/change_digest.h"
#include "codec/codec.h"
#include "codec/segment_image.h"
#include "tensor/random_model.h"

namespace xorbit {

inline Layout OneTensorLayout(uint32_t unit_bytes, uint64_t element_count) {
  const Dtype dtype = unit_bytes == 1   ? Dtype::kU8
                      : unit_bytes == 2 ? Dtype::kBF16
                      : unit_bytes == 4 ? Dtype::kF32
                                        : Dtype::kF64;
  return Layout::Make({TensorSpec{.name = "w", .dtype = dtype, .shape = {element_count}}}).value();
}

inline SegmentMap OneTensorMap(uint32_t unit_bytes, uint64_t element_count) {
  const Layout layout = OneTensorLayout(unit_bytes, element_count);
  return SegmentMap::Make(layout, unit_bytes, 0, {WholeTensor(layout, 0)}).value();
}

inline uint64_t UnitMask(uint32_t unit_bytes) { return unit_bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * unit_bytes)) - 1; }

// A change with random old bits; `one_bit` flips a single bit, otherwise all bits are random.
inline ElementChange RandomChange(Random& random, uint32_t unit_bytes, uint64_t element, bool one_bit) {
  const uint64_t mask = UnitMask(unit_bytes);
  uint64_t bits = one_bit ? uint64_t{1} << random() % (8 * unit_bytes) : random() & mask;
  if (bits == 0) bits = 1;
  return {element, random() & mask, bits};
}

// Each element changes with probability per_million / 10^6.
inline std::vector<ElementChange> UniformChanges(Random& random, uint32_t unit_bytes, uint64_t element_count,
                                                 uint64_t per_million, bool one_bit) {
  std::vector<ElementChange> changes;
  for (uint64_t e = 0; e < element_count; ++e) {
    if (random() % 1000000 < per_million) changes.push_back(RandomChange(random, unit_bytes, e, one_bit));
  }
  return changes;
}

// Differences a and b of two words whose contributions to lane 0 cancel: a w + b v = 0 modulo 2^64, that is b = a t.
// The extended Euclidean algorithm on 2^64 and t passes a pair of 32-bit numbers half-way.
inline std::pair<int64_t, int64_t> CancellingDifferences(uint64_t w, uint64_t v) {
  uint64_t inverse = v;  // Newton's iteration: v is odd
  for (int i = 0; i < 6; ++i) inverse *= 2 - v * inverse;
  const uint64_t t = 0 - w * inverse;
  const uint64_t quotient = ~uint64_t{0} / t;
  uint64_t last_b = t;
  uint64_t b = 0 - quotient * t;
  int64_t last_a = 1;
  auto a = -static_cast<int64_t>(quotient);
  while (b >> 32 != 0) {
    const uint64_t times = last_b / b;
    last_b = std::exchange(b, last_b - times * b);
    last_a = std::exchange(a, last_a - static_cast<int64_t>(times) * a);
  }
  return {a, static_cast<int64_t>(b)};
}

// A change of one 8-byte element of tensor "w" that lane 0 does not show.
inline ElementChange HiddenChange(uint64_t tensor_key, uint64_t element) {
  const auto [low, high] =
      CancellingDifferences(WordWeight(tensor_key, 2 * element).lane0, WordWeight(tensor_key, 2 * element + 1).lane0);
  const auto old_word = [](int64_t difference) { return static_cast<uint64_t>(difference < 0 ? -difference : 0); };
  const auto new_word = [&](int64_t difference) { return static_cast<uint64_t>(difference < 0 ? 0 : difference); };
  const uint64_t old_bits = old_word(low) | old_word(high) << 32;
  return {element, old_bits, old_bits ^ (new_word(low) | new_word(high) << 32)};
}

struct DecodedSegment {
  std::vector<std::pair<uint64_t, uint64_t>> changes;  // element, xor
  std::vector<std::pair<uint64_t, uint64_t>> digests;  // before, after of each record
  friend bool operator==(const DecodedSegment&, const DecodedSegment&) = default;
};

// Decodes everything and checks what a decoder promises; nothing if the bytes are refused.
inline std::optional<DecodedSegment> DecodeAll(const Codec& codec, const SegmentMap& map, const EncodedSegmentView& view) {
  auto decoder = codec.Open(map, view);
  if (!decoder.ok()) return std::nullopt;
  DecodedSegment decoded;
  DecodedRecord record;
  for (uint64_t i = 0; i < (*decoder)->record_count(); ++i) {
    const RecordInfo info = (*decoder)->info(i);
    if (!(*decoder)->Decode(i, &record).ok()) return std::nullopt;
    EXPECT_EQ(record.count, info.change_count);
    EXPECT_EQ(record.offsets[0], 0U);
    EXPECT_EQ(info.first + record.offsets[record.count - 1], info.last);
    for (uint64_t c = 0; c < record.count; ++c) {
      const uint64_t bits = UnitBits(record.xors.data() + c * map.unit_bytes(), map.unit_bytes());
      EXPECT_NE(bits, 0U);
      if (c > 0) {
        EXPECT_LT(record.offsets[c - 1], record.offsets[c]);
      }
      decoded.changes.emplace_back(info.first + record.offsets[c], bits);
    }
    decoded.digests.emplace_back(info.before, info.after);
  }
  return decoded;
}

}  // namespace xorbit
