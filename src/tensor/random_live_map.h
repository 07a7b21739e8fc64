// Random live maps for property tests, and the slow walk over a piece that everything else is compared with.
//
// Shared by the tests of all floors from here up; no product code includes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tensor/live_map.h"
#include "tensor/random_model.h"

namespace xorbit {

// visit(canonical granule, live granule) for every granule of a piece, in canonical order: one loop a digit.
template <typename Visit>
void ForEachGranule(const LiveMap& map, const Piece& piece, Visit&& visit) {
  const PieceClass& shape = map.class_of(piece);
  const uint64_t count = shape.granule_count();
  for (uint64_t index = 0; index < count; ++index) {
    uint64_t rest = index;
    uint64_t canonical = piece.origin;
    uint64_t live = piece.live_origin;
    for (uint32_t i = shape.digit_count; i-- > 0;) {
      canonical += rest % shape.digits[i].count * shape.digits[i].canonical_stride;
      live += rest % shape.digits[i].count * shape.digits[i].live_stride;
      rest /= shape.digits[i].count;
    }
    visit(canonical, live);
  }
}

// One granule's bits, of any width that pieces have.
inline uint64_t ReadGranule(ConstBytes bytes, uint64_t granule, uint32_t granule_bits) {
  if (granule_bits == 4) return (bytes[granule / 2] >> (granule % 2 * 4)) & 15;
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + granule * (granule_bits / 8), granule_bits / 8);
  return value;
}
inline void WriteGranule(MutableBytes bytes, uint64_t granule, uint32_t granule_bits, uint64_t value) {
  if (granule_bits == 4) {
    uint8_t& byte = bytes[granule / 2];
    const unsigned shift = granule % 2 * 4;
    byte = static_cast<uint8_t>((byte & ~(15U << shift)) | ((value & 15) << shift));
    return;
  }
  std::memcpy(bytes.data() + granule * (granule_bits / 8), &value, granule_bits / 8);
}

// Builds a map in which every element of every tensor that is not empty has one counted place, and some have copies: tensors
// cut into pieces, their digits in another order, rows apart, half bytes moved. Pieces lie in a few regions with gaps between
// them.
class RandomLiveMap {
 public:
  RandomLiveMap(Random& random, const Layout& layout) : random_(random), layout_(layout) {
    region_ends_.resize(Between(random_, 1, 3), 0);
    for (uint32_t i = 0; i < layout.tensors().size(); ++i) Place(i);
    for (size_t i = 0; i < region_ends_.size(); ++i) {
      spec_.regions.push_back({"region " + std::to_string(i), region_ends_[i] + Between(random_, 0, 9)});
    }
    spec_.classes = std::move(classes_).Take();
    spec_.epoch = random_();
    std::shuffle(spec_.pieces.begin(), spec_.pieces.end(), random_);
  }

  const LiveMapSpec& spec() const { return spec_; }
  LiveMap Make() const { return LiveMap::Make(layout_, spec_).value(); }

 private:
  void Place(uint32_t tensor_index) {
    const TensorSpec& tensor = layout_.tensors()[tensor_index];
    if (tensor.byte_count == 0) return;
    const uint32_t unit_bits = 8 * UnitBytesOf(tensor.dtype);
    uint32_t granule_bits = unit_bits;
    if (Between(random_, 0, 3) == 0) granule_bits = uint32_t{4} << Between(random_, 0, 4);
    granule_bits = std::min(granule_bits, unit_bits);
    const uint64_t granules = tensor.byte_count * 8 / granule_bits;
    const uint64_t copies = Between(random_, 0, 5) == 0 ? 2 : 1;
    for (uint64_t copy = 0; copy < copies; ++copy) {
      for (uint64_t at = 0; at < granules;) {
        const uint64_t count = std::min(granules - at, Between(random_, 1, granules));
        PlaceRange(tensor_index, granule_bits, at, count, copy == 0);
        at += count;
      }
    }
  }

  // A mixed radix of `count`, its digits in a random live order, with gaps between some of them.
  void PlaceRange(uint32_t tensor_index, uint32_t granule_bits, uint64_t origin, uint64_t count, bool counted) {
    std::vector<LiveDigit> digits;
    uint64_t rest = count;
    uint64_t stride = 1;
    for (uint64_t factor = 2; rest > 1 && digits.size() < 5; ++factor) {
      if (factor * factor > rest) factor = rest;
      if (rest % factor != 0 || (factor < rest && Between(random_, 0, 2) == 0)) continue;
      digits.insert(digits.begin(), {factor, stride, 0});
      stride *= factor;
      rest /= factor;
    }
    if (rest > 1) digits.insert(digits.begin(), {rest, stride, 0});
    if (digits.empty()) digits.push_back({1, 1, 1});
    std::vector<size_t> order(digits.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
    if (Between(random_, 0, 1) == 0) std::shuffle(order.begin(), order.end(), random_);
    uint64_t live_extent = 1;
    for (const size_t i : order) {
      digits[i].live_stride = live_extent + (Between(random_, 0, 3) == 0 ? Between(random_, 0, 5) : 0);
      live_extent += (digits[i].count - 1) * digits[i].live_stride;
    }
    const auto region = static_cast<uint32_t>(Between(random_, 0, region_ends_.size() - 1));
    // The region's end, up to a whole granule.
    const uint64_t live_origin = (region_ends_[region] * 8 + granule_bits - 1) / granule_bits +
                                 (Between(random_, 0, 1) == 0 ? 0 : Between(random_, 0, 9));
    region_ends_[region] = ((live_origin + live_extent) * granule_bits + 7) / 8;
    spec_.pieces.push_back({.tensor_index = tensor_index,
                            .class_index = classes_.Intern(MakePieceClass(granule_bits, digits).value()),
                            .region_index = region,
                            .counted = counted,
                            .origin = origin,
                            .live_origin = live_origin});
  }

  Random& random_;
  const Layout& layout_;
  LiveMapSpec spec_;
  ClassTable classes_;
  std::vector<uint64_t> region_ends_;
};

}  // namespace xorbit
