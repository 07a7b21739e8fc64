// Every live copy of one element, wherever its parts lie: the slow way, for what no warp's run holds.
#pragma once

#include "backend/cuda/live_access.h"
#include "backend/cuda/live_place.h"

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
  uint64_t address = 0;  // of a whole element
  RegionBounds region{};
  Granule granule{};   // bits = 0: a whole element
  uint32_t shift = 0;  // of the granule in its element
  bool counted = true;
  bool written = true;

  XORBIT_DEVICE bool is_whole() const { return granule.bits == 0; }
  XORBIT_DEVICE uint32_t bit_count() const { return is_whole() ? static_cast<uint32_t>(8 * sizeof(Unit)) : granule.bits; }
  // The element's bits that this copy holds.
  XORBIT_DEVICE Unit mask() const {
    return is_whole() ? static_cast<Unit>(~Unit{0}) : static_cast<Unit>(((uint64_t{1} << granule.bits) - 1) << shift);
  }
  XORBIT_DEVICE Unit Load() const {
    if (is_whole()) return LoadElement<Unit>(address);
    return static_cast<Unit>(static_cast<Unit>(LoadGranule(granule)) << shift);
  }
  // Returns the old bits.
  XORBIT_DEVICE Unit Xor(Unit bits) const {
    if (is_whole()) return XorRaggedElement<Unit>(address, bits, region);
    const uint32_t old = XorGranule(granule, static_cast<uint32_t>((bits & mask()) >> shift));
    return static_cast<Unit>(static_cast<Unit>(old) << shift);
  }
  // A granule may share its byte with another, so it is stored by the difference.
  XORBIT_DEVICE void Store(Unit value) const {
    if (is_whole()) return StoreElement<Unit>(address, value);
    Xor(static_cast<Unit>((Load() ^ value) & mask()));
  }
};

// Of an element whose parts lie apart.
template <typename Unit, typename Touch>
XORBIT_DEVICE void ForEachGranuleCopy(const UpdateOnDevice& update, const LivePart& part, uint64_t tensor_element,
                                      const ElementWeight<Unit>& weight, Touch&& touch) {
  const auto per_element = static_cast<uint32_t>(8 * sizeof(Unit)) / part.granule_bits;
  for (uint32_t i = 0; i < per_element * part.track_count; ++i) {
    const uint64_t granule = tensor_element * per_element + i % per_element;
    const GranulePlace place = FindGranulePlace(&update, &part, granule, i / per_element);
    if (!place.present) continue;
    LiveCopy<Unit> copy;
    copy.granule = {place.live, part.granule_bits, update.regions[place.region_index]};
    copy.shift = i % per_element * part.granule_bits;
    copy.counted = place.counted;
    copy.written = i / per_element < part.written_track_count;
    touch(copy, weight);
  }
}

// Calls touch(copy, weight) for every copy of a segment's element, or of each of its parts.
template <typename Unit, typename Touch>
XORBIT_DEVICE void ForEachCopy(const UpdateOnDevice& update, const SegmentOnDevice& segment, const uint64_t* word_factors,
                               PlaceHint hint, uint64_t element, Touch&& touch) {
  const LivePart& part = FindPart(segment, element, &hint);
  if (part.granule_bits < 8 * sizeof(Unit)) {
    const TensorRun run = RunInPart(update, part, (&part)[1].first, element);
    const uint64_t tensor_element = run.origin + (element - run.first);
    const ElementWeight<Unit> weight(part.tensor_key, tensor_element * sizeof(Unit), word_factors);
    return ForEachGranuleCopy<Unit>(update, part, tensor_element, weight, touch);
  }
  for (uint32_t track = 0; track < part.track_count; ++track) {
    const CopyRun run = FindRun(&update, &segment, element, track, hint);
    if (run.live_address == 0) continue;
    const uint64_t at = (element - run.first) * sizeof(Unit);
    LiveCopy<Unit> copy;
    copy.address = run.live_address + at;
    copy.region = update.regions[run.region_index];
    copy.counted = run.counted;
    copy.written = track < part.written_track_count;
    touch(copy, ElementWeight<Unit>(run.tensor_key, run.tensor_byte + at, word_factors));
  }
}

}  // namespace xorbit::cuda
