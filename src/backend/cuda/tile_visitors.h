// What pre-flight, apply, undo and comparison do with each change of a tile, as visitors of tile_decode.h.
//
// A visitor hands every live copy of a changed element to its Touch: mostly one copy, found in the lane's last run. Elements
// whose parts lie apart (half bytes that an engine moved) take a slower way, granule by granule.
#pragma once

#include "backend/cuda/live_access.h"
#include "backend/cuda/live_place.h"
#include "backend/cuda/tile_decode.h"

namespace xorbit::cuda {

// What every visitor knows of its tile.
struct TileContext {
  const UpdateOnDevice* update;
  const SegmentOnDevice* segment;
  TileRecord record;
  TileStart start;
  const uint64_t* word_factors;
};

template <typename Unit>
XORBIT_DEVICE Unit* LoggedValue(const TileContext& tile, uint32_t change_index) {
  return reinterpret_cast<Unit*>(tile.segment->old_values) + tile.start.first_change + change_index;
}

// One live copy of an element, or of a part of one.
template <typename Unit>
struct LiveCopy {
  uint64_t address = 0;                     // of a whole element
  const RegionBounds* ragged_in = nullptr;  // the region, if words of the run reach out of it
  Granule granule{};                        // bits = 0: a whole element
  uint32_t shift = 0;                       // of the granule in its element
  bool counted = true;

  XORBIT_DEVICE bool is_whole() const { return granule.bits == 0; }
  // The element's bits that this copy holds.
  XORBIT_DEVICE Unit mask() const {
    return is_whole() ? static_cast<Unit>(~Unit{0}) : static_cast<Unit>(((uint64_t{1} << granule.bits) - 1) << shift);
  }
  XORBIT_DEVICE Unit Load() const {
    if (is_whole()) return LoadElement<Unit>(address);
    return static_cast<Unit>(static_cast<Unit>(LoadGranule(granule)) << shift);
  }
  template <bool kReturn>
  XORBIT_DEVICE Unit Xor(Unit bits) const {
    if (!is_whole()) {
      const uint32_t old = XorGranule(granule, static_cast<uint32_t>((bits & mask()) >> shift));
      return static_cast<Unit>(static_cast<Unit>(old) << shift);
    }
    if (ragged_in != nullptr) return XorRaggedElement<Unit>(address, bits, *ragged_in);
    return XorElement<Unit, kReturn>(address, bits);
  }
  // A granule may share its byte with another, so it is stored by the difference.
  XORBIT_DEVICE void Store(Unit value) const {
    if (is_whole()) return StoreElement<Unit>(address, value);
    Xor<true>(static_cast<Unit>((Load() ^ value) & mask()));
  }
};

// Calls touch(copy, weight) for every copy of a segment's element.
template <typename Unit, typename Touch>
XORBIT_DEVICE void ForEachCopy(const TileContext& tile, PlaceFinder* places, uint64_t element, Touch&& touch) {
  const UpdateOnDevice& update = *tile.update;
  if (tile.segment->split_granules != 0) {
    PlaceHint hint{tile.start.part_index, 0};
    const LivePart& part = FindPart(*tile.segment, element, &hint);
    if (part.granule_bits < 8 * sizeof(Unit)) {
      const TensorRun run = RunInPart(update, part, (&part)[1].first, element);
      const uint64_t tensor_element = run.origin + (element - run.first);
      const ElementWeight weight(part.tensor_key, tensor_element * sizeof(Unit), tile.word_factors);
      const auto per_element = static_cast<uint32_t>(8 * sizeof(Unit)) / part.granule_bits;
      for (uint32_t i = 0; i < per_element * part.track_count; ++i) {
        const uint64_t granule = tensor_element * per_element + i % per_element;
        const GranulePlace place = FindGranulePlace(&update, &part, granule, i / per_element);
        if (!place.present) continue;
        LiveCopy<Unit> copy;
        copy.granule = {place.live, part.granule_bits, update.regions[place.region_index]};
        copy.shift = i % per_element * part.granule_bits;
        copy.counted = place.counted;
        touch(copy, weight);
      }
      return;
    }
  }
  for (uint32_t track = 0; track < tile.segment->track_count; ++track) {
    const CopyRun& run = places->Seek(element, track);
    if (run.live_address == 0) continue;
    const uint64_t at = (element - run.first) * sizeof(Unit);
    LiveCopy<Unit> copy;
    copy.address = run.live_address + at;
    if (run.ragged) copy.ragged_in = &update.regions[run.region_index];
    copy.counted = run.counted;
    touch(copy, ElementWeight(run.tensor_key, run.tensor_byte + at, tile.word_factors));
  }
}

// Reads the old values: sums of them and of what they will become, and a copy for the undo log.
template <typename Unit, bool kKeepLog>
class PreflightVisitor {
 public:
  XORBIT_DEVICE explicit PreflightVisitor(const TileContext& tile)
      : tile_(tile), first_(tile.record.first), places_(*tile.update, *tile.segment, tile.start.part_index) {}

  XORBIT_DEVICE void Visit(bool active, uint32_t change_index, uint32_t offset, Unit bits) {
    if (!active) return;
    Unit value = 0;
    Unit known = 0;
    ForEachCopy<Unit>(tile_, &places_, first_ + offset, [&](const LiveCopy<Unit>& copy, const ElementWeight& weight) {
      const Unit old = copy.Load();
      const auto target = static_cast<Unit>((old ^ bits) & copy.mask());
      replicas_differ_ |= ((old ^ value) & known & copy.mask()) != 0;
      value = static_cast<Unit>(value | old);
      known = static_cast<Unit>(known | copy.mask());
      const uint64_t before = weight.Lane0(old);
      const uint64_t after = weight.Lane0(target);
      local_.before += before;
      local_.after += after;
      ++local_count_;
      if (!copy.counted) return;
      counted_.before += before;
      counted_.after += after;
      lane1_change_ += weight.Lane1(target) - weight.Lane1(old);
    });
    if constexpr (kKeepLog) *LoggedValue<Unit>(tile_, change_index) = value;
  }

  // All lanes together, each once.
  XORBIT_DEVICE TileSums LocalSums() const { return {WarpSum(local_.before), WarpSum(local_.after)}; }
  XORBIT_DEVICE TileSums CountedSums() const { return {WarpSum(counted_.before), WarpSum(counted_.after)}; }
  XORBIT_DEVICE uint64_t Lane1Change() const { return WarpSum(lane1_change_); }
  XORBIT_DEVICE uint64_t LocalCount() const { return WarpSum(local_count_); }
  XORBIT_DEVICE bool ReplicasDiffer() const { return AnyLane(replicas_differ_); }

 private:
  TileContext tile_;
  uint64_t first_;
  PlaceFinder places_;
  TileSums local_{};
  TileSums counted_{};
  uint64_t lane1_change_ = 0;
  uint32_t local_count_ = 0;
  bool replicas_differ_ = false;
};

// How apply writes. Returning XOR checks what it met at once; the others need a comparison after them.
enum class ApplyKind : uint8_t {
  kReturningXor,  // and sums the old values
  kXor,           // nothing comes back
  kStore,         // absolute: undo log ^ change
  kRestore,       // absolute: the undo log, which undoes any of them
  kCompare,       // writes nothing: sums what is there
};

template <typename Unit, ApplyKind kKind>
class ApplyVisitor {
 public:
  XORBIT_DEVICE explicit ApplyVisitor(const TileContext& tile)
      : tile_(tile), first_(tile.record.first), places_(*tile.update, *tile.segment, tile.start.part_index) {}

  XORBIT_DEVICE void Visit(bool active, uint32_t change_index, uint32_t offset, Unit bits) {
    if (!active) return;
    ForEachCopy<Unit>(tile_, &places_, first_ + offset, [&](const LiveCopy<Unit>& copy, const ElementWeight& weight) {
      if constexpr (kKind == ApplyKind::kReturningXor) {
        found_ += weight.Lane0(copy.template Xor<true>(bits));
      } else if constexpr (kKind == ApplyKind::kXor) {
        copy.template Xor<false>(bits);
      } else if constexpr (kKind == ApplyKind::kCompare) {
        found_ += weight.Lane0(copy.Load());
      } else {
        const Unit old = *LoggedValue<Unit>(tile_, change_index);
        copy.Store(kKind == ApplyKind::kStore ? static_cast<Unit>(old ^ bits) : old);
      }
    });
  }

  // Lane 0 over what the writes met, or a comparison found. All lanes together.
  XORBIT_DEVICE uint64_t Found() const { return WarpSum(found_); }

 private:
  TileContext tile_;
  uint64_t first_;
  PlaceFinder places_;
  uint64_t found_ = 0;
};

}  // namespace xorbit::cuda
