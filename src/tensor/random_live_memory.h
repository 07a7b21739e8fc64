// Random live memory for property tests: random maps over the ranks of a cohort, with shadows, and what their memory must hold,
// filled granule by granule.
//
// Shared by the tests of all floors from here up; no product code includes it.
#pragma once

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/unit.h"
#include "tensor/live_cast.h"
#include "tensor/live_memory.h"
#include "tensor/random_live_map.h"

namespace xorbit {

// Makes each piece of the tensor a shadow with a region of its own: boxes of any shape, some of which do not count.
inline void TurnIntoShadows(Random& random, uint32_t tensor_index, Cast cast, LiveMapSpec* spec) {
  for (const Piece& piece : spec->pieces) {
    if (piece.tensor_index != tensor_index) continue;
    const PieceClass& shape = spec->classes[piece.class_index];
    ShadowBinding shadow{cast, piece};
    shadow.piece.live_origin = Between(random, 0, 3);
    shadow.piece.region_index = static_cast<uint32_t>(spec->regions.size());
    spec->regions.push_back({"shadow " + std::to_string(spec->regions.size()),
                             (shadow.piece.live_origin + shape.live_extent()) * LiveBitsOf(cast, shape.granule_bits) / 8});
    spec->shadows.push_back(shadow);
  }
}

// Takes the pieces of about one tensor in four and places the tensor as shadows: what its pieces were, if these are whole
// units, or a run or two.
inline void PlaceShadows(Random& random, const Layout& layout, LiveMapSpec* spec) {
  for (uint32_t tensor_index = 0; tensor_index < layout.tensors().size(); ++tensor_index) {
    const TensorSpec& tensor = layout.tensors()[tensor_index];
    if (tensor.byte_count == 0 || Between(random, 0, 3) != 0) continue;
    const Cast cast = tensor.dtype == Dtype::kBF16  ? Cast::kBf16ToF32
                      : tensor.dtype == Dtype::kF32 ? Cast::kF32ToBf16
                                                    : Cast::kCopy;
    const uint32_t unit_bytes = UnitBytesOf(tensor.dtype);
    const uint64_t units = tensor.unit_count();
    const auto is_here = [&](const Piece& piece) { return piece.tensor_index == tensor_index; };
    const auto piece_here = std::ranges::find_if(spec->pieces, is_here);
    const bool is_whole =
        piece_here != spec->pieces.end() && spec->classes[piece_here->class_index].granule_bits == 8 * unit_bytes;
    const bool keeps_boxes = is_whole && Between(random, 0, 1) == 0;
    if (keeps_boxes) TurnIntoShadows(random, tensor_index, cast, spec);
    std::erase_if(spec->pieces, is_here);
    if (keeps_boxes) continue;
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

// One rank's memory: regions and kept copies at any alignment.
class RandomLiveMemory {
 public:
  // Memory of its own, or the first of `storage`, which is left as it is; one Random makes the same places in both.
  RandomLiveMemory(Random& random, const Layout& layout, LiveMap map, MutableBytes storage = {}) : map_(std::move(map)) {
    std::vector<uint64_t> sizes;
    for (const LiveRegion& region : map_.regions()) sizes.push_back(region.byte_count);
    for (const uint32_t tensor_index : map_.kept_tensors()) sizes.push_back(layout.tensors()[tensor_index].byte_count);
    uint64_t at = 0;
    std::vector<uint64_t> starts;
    for (const uint64_t size : sizes) {
      at += Between(random, 0, 70);
      starts.push_back(at);
      at += size;
    }
    assert(storage.empty() || storage.size() >= at);
    if (storage.empty()) {
      own_.resize(at);
      for (uint8_t& byte : own_) byte = static_cast<uint8_t>(random());
    }
    all_ = storage.empty() ? MutableBytes(own_) : storage.first(at);
    for (size_t i = 0; i < starts.size(); ++i) {
      (i < map_.regions().size() ? regions_ : kept_).push_back(all_.subspan(starts[i], sizes[i]));
    }
  }
  RandomLiveMemory(const RandomLiveMemory&) = delete;
  RandomLiveMemory& operator=(const RandomLiveMemory&) = delete;

  LiveMap& map() { return map_; }
  LiveMemory memory() const { return {&map_, regions_, kept_}; }

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
  Buffer Snapshot() const { return {all_.begin(), all_.end()}; }
  MutableBytes bytes() const { return all_; }

 private:
  LiveMap map_;
  Buffer own_;
  MutableBytes all_;
  std::vector<MutableBytes> regions_;
  std::vector<MutableBytes> kept_;
};

// A byte that differs between two snapshots, and a value for it that leaves its element neither old nor new, even if half a
// byte is one.
inline std::pair<uint8_t*, uint8_t> ForeignValue(Random& random, RandomLiveMemory* live, const Buffer& here,
                                                 const Buffer& there) {
  std::vector<size_t> differences;
  for (size_t i = 0; i < here.size(); ++i) {
    if (here[i] != there[i]) differences.push_back(i);
  }
  const size_t i = differences[Between(random, 0, differences.size() - 1)];
  const unsigned change = here[i] ^ there[i];
  const unsigned shift = (change & 15) != 0 ? 0 : 4;
  unsigned other = 1 + static_cast<unsigned>(Between(random, 0, 13));
  if (other >= (change >> shift & 15)) ++other;
  return {live->bytes().data() + i, static_cast<uint8_t>(here[i] ^ other << shift)};
}

}  // namespace xorbit
