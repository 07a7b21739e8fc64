// Live memory of a random model on the host, under any map: what tests of device code apply to. No product code includes it.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/cuda/update_on_device.h"
#include "tensor/live_memory.h"
#include "tensor/random_live_map.h"
#include "tensor/random_model.h"

namespace xorbit::cuda::testing {

// Live memory under some map, each region at an alignment of its own; what may be touched as words ends with the region, or,
// where half bytes need it, with a word.
class EmulatedMemory {
 public:
  EmulatedMemory(LiveMap map, Random& random, bool is_aligned = false) : map_(std::move(map)) {
    for (const LiveRegion& region : map_.regions()) {
      const bool whole_words = std::any_of(map_.pieces().begin(), map_.pieces().end(),
                                           [&](const Piece& piece) { return map_.class_of(piece).granule_bits < 8; });
      const uint64_t head = whole_words || is_aligned ? 0 : Between(random, 0, 7);
      memory_.emplace_back(head + region.byte_count + 8, uint8_t{0xa5});
      const auto begin = reinterpret_cast<uint64_t>(memory_.back().data()) + head;
      const uint64_t end = begin + region.byte_count;
      regions_.push_back({begin, whole_words ? (end + 3) / 4 * 4 : end});
      bytes_.emplace_back(memory_.back().data() + head, region.byte_count);
    }
  }

  void Set(const RandomTensors& tensors) { Write(tensors, bytes_); }
  // Whether every byte is as if set from these tensors, those of no piece included.
  bool Holds(const RandomTensors& tensors) const {
    std::vector<Buffer> want;
    std::vector<MutableBytes> want_bytes;
    for (const MutableBytes& region : bytes_) want.emplace_back(region.size(), uint8_t{0xa5});
    for (Buffer& region : want) want_bytes.emplace_back(region);
    Write(tensors, want_bytes);
    for (size_t i = 0; i < want.size(); ++i) {
      if (!std::equal(want[i].begin(), want[i].end(), bytes_[i].begin())) return false;
    }
    return true;
  }
  const LiveMap& map() const { return map_; }
  std::span<const RegionBounds> regions() const { return regions_; }
  LiveMemory memory() const { return {&map_, bytes_, {}}; }

 private:
  void Write(const RandomTensors& tensors, std::span<const MutableBytes> regions) const {
    const auto canonical = tensors.bytes();
    for (const Piece& piece : map_.pieces()) {
      const uint32_t bits = map_.class_of(piece).granule_bits;
      ForEachGranule(map_, piece, [&](uint64_t from, uint64_t to) {
        WriteGranule(regions[piece.region_index], to, bits, ReadGranule(canonical[piece.tensor_index], from, bits));
      });
    }
  }

  LiveMap map_;
  std::vector<Buffer> memory_;
  std::vector<MutableBytes> bytes_;
  std::vector<RegionBounds> regions_;
};

}  // namespace xorbit::cuda::testing
