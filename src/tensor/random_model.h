// Random models for property tests: layouts of every dtype, tensor bytes at any alignment, owners' segments of every shape.
//
// Shared by the tests of all floors from here up; no product code includes it.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "tensor/layout.h"
#include "tensor/segment.h"

namespace xorbit {

using Random = std::mt19937_64;

// Uniform in [low, high].
inline uint64_t Between(Random& random, uint64_t low, uint64_t high) {
  return std::uniform_int_distribution<uint64_t>(low, high)(random);
}

// Up to `max_tensors` tensors of at most about `max_elements` elements each: all dtypes; scalars, vectors and matrices; now and
// then one without elements; about one in eight frozen.
inline Layout RandomLayout(Random& random, uint64_t max_tensors, uint64_t max_elements) {
  std::vector<TensorSpec> tensors(Between(random, 1, max_tensors));
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorSpec& tensor = tensors[i];
    tensor.name = "layers." + std::to_string(Between(random, 0, 99)) + "." + std::to_string(i) + ".weight";
    tensor.dtype = *DtypeFromCode(static_cast<uint8_t>(Between(random, 1, 22)));
    tensor.frozen = Between(random, 0, 7) == 0;
    switch (Between(random, 0, 9)) {
      case 0:
        break;  // a scalar
      case 1:
        tensor.shape = {Between(random, 0, 3), 0};  // no elements
        break;
      case 2:
      case 3:
        tensor.shape = {Between(random, 1, max_elements)};
        break;
      default: {
        const uint64_t columns = Between(random, 1, 300);
        tensor.shape = {Between(random, 1, max_elements / columns + 1), columns};
      }
    }
    // Sub-byte elements must fill whole bytes.
    if (BitsOf(tensor.dtype) < 8) tensor.shape.push_back(4);
  }
  return Layout::Make(std::move(tensors)).value();
}

// Canonical bytes of a layout's tensors, each at a random alignment of its own.
class RandomTensors {
 public:
  RandomTensors(Random& random, const Layout& layout) {
    uint64_t at = 0;
    for (const TensorSpec& tensor : layout.tensors()) {
      at += Between(random, 0, 70);
      places_.push_back({at, tensor.byte_count});
      at += tensor.byte_count;
    }
    arena_.resize(at);
    for (uint8_t& byte : arena_) byte = static_cast<uint8_t>(random());
  }

  // Puts the bytes of `other` (same layout) at this object's own alignments.
  void CopyFrom(const RandomTensors& other) { CopyBytes(other.bytes()); }
  void CopyBytes(const std::vector<ConstBytes>& tensors) {
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].byte_count == 0) continue;
      std::memcpy(arena_.data() + places_[i].offset, tensors[i].data(), places_[i].byte_count);
    }
  }

  // Flips one random bit in about `per_mille` thousandths of each tensor's units; frozen tensors stay.
  void Mutate(Random& random, const Layout& layout, uint64_t per_mille) {
    for (size_t i = 0; i < places_.size(); ++i) {
      if (layout.tensors()[i].frozen) continue;
      const uint64_t unit_bytes = UnitBytesOf(layout.tensors()[i].dtype);
      for (uint64_t at = 0; at < places_[i].byte_count; at += unit_bytes) {
        if (random() % 1000 >= per_mille) continue;
        const uint64_t bit = random() % (8 * unit_bytes);
        arena_[places_[i].offset + at + bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
      }
    }
  }

  // Takes about half of the units from `other` (same layout).
  void Mix(Random& random, const Layout& layout, const RandomTensors& other) {
    for (size_t i = 0; i < places_.size(); ++i) {
      const uint64_t unit_bytes = UnitBytesOf(layout.tensors()[i].dtype);
      for (uint64_t at = 0; at < places_[i].byte_count; at += unit_bytes) {
        if (random() % 2 == 0) continue;
        std::memcpy(arena_.data() + places_[i].offset + at, other.arena_.data() + other.places_[i].offset + at, unit_bytes);
      }
    }
  }

  std::vector<ConstBytes> bytes() const {
    std::vector<ConstBytes> all;
    for (const Place& place : places_) all.emplace_back(arena_.data() + place.offset, place.byte_count);
    return all;
  }
  std::vector<MutableBytes> mutable_bytes() {
    std::vector<MutableBytes> all;
    for (const Place& place : places_) all.emplace_back(arena_.data() + place.offset, place.byte_count);
    return all;
  }

 private:
  struct Place {
    uint64_t offset;
    uint64_t byte_count;
  };
  std::vector<Place> places_;
  Buffer arena_;
};

// Parts of one tensor for each of `owner_count` owners, together covering it once: whole to one owner, ranges, column shards,
// or every owner_count-th row.
inline std::vector<std::vector<Part>> RandomSplit(Random& random, const TensorSpec& tensor, uint32_t tensor_index,
                                                  uint32_t owner_count) {
  std::vector<std::vector<Part>> parts(owner_count);
  const uint64_t unit_count = tensor.unit_count();
  const uint64_t columns = tensor.shape.empty() || tensor.shape.back() == 0 ? 1 : tensor.shape.back();
  const bool is_matrix = BitsOf(tensor.dtype) >= 8 && unit_count % columns == 0 && columns >= owner_count;
  const uint64_t kind = Between(random, 0, is_matrix ? 3 : 1);
  if (kind == 0) {
    parts[Between(random, 0, owner_count - 1)].push_back({tensor_index, 0, {{unit_count, 1}}});
    return parts;
  }
  const uint64_t rows = unit_count / columns;
  for (uint64_t owner = 0; owner < owner_count; ++owner) {
    const uint64_t extent = kind == 1 ? unit_count : columns;
    const uint64_t first = extent * owner / owner_count;
    const uint64_t count = extent * (owner + 1) / owner_count - first;
    if (kind == 1 && count > 0) parts[owner].push_back({tensor_index, first, {{count, 1}}});
    if (kind == 2) parts[owner].push_back({tensor_index, first, {{rows, columns}, {count, 1}}});
    const uint64_t own_rows = rows / owner_count + (owner < rows % owner_count ? 1 : 0);
    if (kind == 3 && own_rows > 0) {
      parts[owner].push_back({tensor_index, owner * columns, {{own_rows, columns * owner_count}, {columns, 1}}});
    }
  }
  return parts;
}

// Segments of 1 to 3 owners that together hold every element of every tensor that is neither frozen nor empty once.
inline std::vector<SegmentMap> RandomSegments(Random& random, const Layout& layout) {
  const auto owner_count = static_cast<uint32_t>(Between(random, 1, 3));
  std::vector<std::vector<std::vector<Part>>> parts(owner_count, std::vector<std::vector<Part>>(9));  // by owner, by unit
  for (uint32_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    if (tensor.frozen || tensor.byte_count == 0) continue;
    auto split = RandomSplit(random, tensor, i, owner_count);
    for (uint32_t owner = 0; owner < owner_count; ++owner) {
      auto& target = parts[owner][UnitBytesOf(tensor.dtype)];
      target.insert(target.end(), split[owner].begin(), split[owner].end());
    }
  }
  std::vector<SegmentMap> maps;
  for (auto& by_unit : parts) {
    for (uint32_t unit_bytes = 1; unit_bytes <= 8; unit_bytes *= 2) {
      if (by_unit[unit_bytes].empty()) continue;
      maps.push_back(SegmentMap::Make(layout, unit_bytes, 0, std::move(by_unit[unit_bytes])).value());
    }
  }
  return maps;
}

}  // namespace xorbit
