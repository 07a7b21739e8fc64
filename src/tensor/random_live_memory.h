// Random live memory for property tests: random maps over the ranks of a cohort, with shadows, and what their memory must hold,
// filled granule by granule.
//
// Shared by the tests of all floors from here up; no product code includes it.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/unit.h"
#include "tensor/live_cast.h"
#include "tensor/live_memory.h"
#include "tensor/random_live_map.h"

namespace xorbit {

// Takes the pieces of about one tensor in four, as long as they are whole units, and places the tensor as a shadow or two.
inline void PlaceShadows(Random& random, const Layout& layout, LiveMapSpec* spec) {
  for (uint32_t tensor_index = 0; tensor_index < layout.tensors().size(); ++tensor_index) {
    const TensorSpec& tensor = layout.tensors()[tensor_index];
    if (tensor.byte_count == 0 || Between(random, 0, 3) != 0) continue;
    std::erase_if(spec->pieces, [&](const Piece& piece) { return piece.tensor_index == tensor_index; });
    const Cast cast = tensor.dtype == Dtype::kBF16  ? Cast::kBf16ToF32
                      : tensor.dtype == Dtype::kF32 ? Cast::kF32ToBf16
                                                    : Cast::kCopy;
    const uint32_t unit_bytes = UnitBytesOf(tensor.dtype);
    const uint64_t units = tensor.unit_count();
    const uint64_t first_units = Between(random, 1, units);
    for (uint64_t at = 0; at < units;) {
      const uint64_t count = at == 0 ? first_units : units - at;
      spec->classes.push_back({.granule_bits = 8 * unit_bytes, .digit_count = 1, .digits = {LiveDigit{count, 1, 1}}});
      spec->regions.push_back({"shadow " + std::to_string(spec->regions.size()), count * LiveBitsOf(cast, 8 * unit_bytes) / 8});
      const Piece piece{.tensor_index = tensor_index,
                        .class_index = static_cast<uint32_t>(spec->classes.size() - 1),
                        .region_index = static_cast<uint32_t>(spec->regions.size() - 1),
                        .origin = at};
      spec->shadows.push_back({cast, piece});
      at += count;
    }
  }
}

// Deals what one map places out to ranks, and gives some ranks replicas of what others hold.
inline std::vector<LiveMapSpec> DealOut(Random& random, const LiveMapSpec& whole, size_t rank_count) {
  LiveMapSpec empty = whole;
  empty.pieces.clear();
  empty.shadows.clear();
  std::vector<LiveMapSpec> ranks(rank_count, empty);
  for (const Piece& piece : whole.pieces) {
    const size_t owner = Between(random, 0, rank_count - 1);
    ranks[owner].pieces.push_back(piece);
    const size_t other = Between(random, 0, rank_count - 1);
    if (other == owner || Between(random, 0, 3) != 0) continue;
    ranks[other].pieces.push_back(piece);
    ranks[other].pieces.back().counted = false;
  }
  for (const ShadowBinding& shadow : whole.shadows) ranks[Between(random, 0, rank_count - 1)].shadows.push_back(shadow);
  return ranks;
}

// One rank's memory: regions at any alignment, and kept copies.
class RandomLiveMemory {
 public:
  RandomLiveMemory(Random& random, const Layout& layout, LiveMap map) : map_(std::move(map)) {
    uint64_t at = 0;
    std::vector<uint64_t> starts;
    for (const LiveRegion& region : map_.regions()) {
      at += Between(random, 0, 70);
      starts.push_back(at);
      at += region.byte_count;
    }
    arena_.resize(at);
    for (uint8_t& byte : arena_) byte = static_cast<uint8_t>(random());
    for (size_t i = 0; i < starts.size(); ++i) regions_.emplace_back(arena_.data() + starts[i], map_.regions()[i].byte_count);
    for (const uint32_t tensor_index : map_.kept_tensors()) kept_.emplace_back(layout.tensors()[tensor_index].byte_count);
    for (Buffer& copy : kept_) kept_bytes_.emplace_back(copy);
  }
  RandomLiveMemory(const RandomLiveMemory&) = delete;
  RandomLiveMemory& operator=(const RandomLiveMemory&) = delete;

  LiveMap& map() { return map_; }
  LiveMemory memory() const { return {&map_, regions_, kept_bytes_}; }

  // Puts canonical bytes wherever they belong.
  void Fill(std::span<const ConstBytes> tensors) {
    for (const Piece& piece : map_.pieces()) {
      const uint32_t bits = map_.granule_bits(piece.tensor_index);
      ForEachGranule(map_, piece, [&](uint64_t canonical, uint64_t live) {
        WriteGranule(regions_[piece.region_index], live, bits, ReadGranule(tensors[piece.tensor_index], canonical, bits));
      });
    }
    for (const ShadowBinding& shadow : map_.shadows()) {
      const uint32_t bits = map_.class_of(shadow.piece).granule_bits;
      ForEachGranule(map_, shadow.piece, [&](uint64_t canonical, uint64_t live) {
        WriteGranule(regions_[shadow.piece.region_index], live, LiveBitsOf(shadow.cast, bits),
                     CastBits(shadow.cast, ReadGranule(tensors[shadow.piece.tensor_index], canonical, bits)));
      });
    }
    for (size_t i = 0; i < kept_.size(); ++i) std::ranges::copy(tensors[map_.kept_tensors()[i]], kept_[i].begin());
  }

  // All bytes, also those between regions, which nobody may touch.
  std::vector<Buffer> Snapshot() const {
    std::vector<Buffer> all = kept_;
    all.push_back(arena_);
    return all;
  }
  // Byte i of Snapshot()[block], here.
  uint8_t* ByteOfSnapshot(size_t block, size_t i) { return (block < kept_.size() ? kept_[block] : arena_).data() + i; }

 private:
  LiveMap map_;
  Buffer arena_;
  std::vector<MutableBytes> regions_;
  std::vector<Buffer> kept_;
  std::vector<MutableBytes> kept_bytes_;
};

}  // namespace xorbit
