#include "backend/cpu/live_kernels.h"

#include <algorithm>

#include "backend/cpu/live_address.h"
#include "base/unit.h"
#include "tensor/live_bits.h"
#include "tensor/live_cast.h"

namespace xorbit {
namespace {

template <typename Unit>
uint64_t XorBitsOf(const PlannedRecord& planned, uint32_t change) {
  return LoadLe<Unit>(planned.record->xors.data() + uint64_t{change} * sizeof(Unit));
}

// Calls visit(index, address, change) for every target.
template <bool kStore, typename Visit>
inline void ForTargets(const LiveTargets& targets, Visit&& visit) {
  for (uint32_t i = 0; i < std::min(targets.count, kLiveLookAhead); ++i)
    __builtin_prefetch(ByteAt(targets.addresses[i]), kStore ? 1 : 0);
  for (uint32_t i = 0; i < targets.count; ++i) {
    __builtin_prefetch(ByteAt(targets.addresses[i + kLiveLookAhead]), kStore ? 1 : 0);
    visit(i, targets.addresses[i], targets.changes[i]);
  }
}

// The address of a granule; of half a byte, twice that, with the half.
uint64_t PositionOf(const PlannedRecord& planned, const LiveGranule& granule) {
  const uint64_t base = AddressOf(planned.places[granule.place_index].data());
  return granule.bits == kNibbleBits ? 2 * base + granule.live_bit / kNibbleBits : base + granule.live_bit / 8;
}

// Calls visit(where the kept element is, where its cast is, the element's canonical byte, change) for every change of a cast.
template <typename Unit, typename Visit>
void ForCast(const PlannedRecord& planned, const CastStretch& cast, Visit&& visit) {
  const uint64_t result_bytes = LiveBitsOf(cast.cast, 8 * sizeof(Unit)) / 8;
  const uint8_t* kept = planned.places[cast.kept_place_index].data();
  uint8_t* live = planned.places[cast.at.place_index].data();
  for (uint32_t i = cast.at.begin; i < cast.at.end; ++i) {
    const uint64_t offset = planned.record->offsets[i];
    const uint64_t at = cast.at.canonical_origin + offset * sizeof(Unit);
    visit(kept + at, live + (cast.at.live_origin + offset * result_bytes), at, i);
  }
}

template <typename Unit>
void WeighCast(const PlannedRecord& planned, const CastStretch& cast, LiveSums* sums) {
  const uint64_t key = planned.tensor_keys[cast.at.tensor_index];
  const uint32_t result_bytes = LiveBitsOf(cast.cast, 8 * sizeof(Unit)) / 8;
  ForCast<Unit>(planned, cast, [&](const uint8_t* kept, const uint8_t* live, uint64_t at, uint32_t i) {
    const uint64_t old_bits = LoadLe<Unit>(kept);
    sums->copies_agree &= UnitBits(live, result_bytes) == CastBits(cast.cast, old_bits);
    if (!cast.at.counted) return;
    AddElement<Unit>(BlockFactorsOf(key, at / kDigestBlockBytes), at, old_bits, old_bits ^ XorBitsOf<Unit>(planned, i),
                     &sums->counted);
    sums->counted_bits += 8 * sizeof(Unit);
  });
}

template <typename Unit>
void WeighGranule(const PlannedRecord& planned, const LiveGranule& granule, LiveSums* sums) {
  const uint64_t mask = LowBits(granule.bits);
  const uint64_t met = LoadGranule(planned.places[granule.place_index], granule.live_bit, granule.bits);
  if (granule.written) {
    sums->written += AddressWeight(PositionOf(planned, granule)) * met;
    sums->written_bits += granule.bits;
  }
  if (!granule.counted) return;
  const uint64_t old_bits = met << granule.shift;
  const uint64_t new_bits = old_bits ^ (XorBitsOf<Unit>(planned, granule.change) & mask << granule.shift);
  const uint64_t at = granule.canonical_byte;
  AddElement<Unit>(BlockFactorsOf(planned.tensor_keys[granule.tensor_index], at / kDigestBlockBytes), at, old_bits, new_bits,
                   &sums->counted);
  sums->counted_bits += granule.bits;
}

// Whether every place of an element holds the same bits. Elements that lie only here in part are compared in that part.
template <typename Unit>
bool CopiesAgree(const PlannedRecord& planned) {
  struct Seen {
    Unit mask = 0;
    Unit bits = 0;
  };
  std::vector<Seen> seen(planned.record->count);
  const auto agrees = [&](uint32_t change, Unit mask, Unit bits) {
    Seen& one = seen[change];
    const bool same = ((one.bits ^ bits) & one.mask & mask) == 0;
    one.bits = static_cast<Unit>(one.bits | bits);
    one.mask = static_cast<Unit>(one.mask | mask);
    return same;
  };
  for (const LiveStretch& stretch : planned.plan->stretches) {
    const uint8_t* live = planned.places[stretch.place_index].data();
    for (uint32_t i = stretch.begin; i < stretch.end; ++i) {
      const uint64_t at = stretch.live_origin + uint64_t{planned.record->offsets[i]} * sizeof(Unit);
      if (!agrees(i, static_cast<Unit>(~Unit{0}), LoadLe<Unit>(live + at))) return false;
    }
  }
  for (const LiveGranule& granule : planned.plan->granules) {
    const uint64_t bits = LoadGranule(planned.places[granule.place_index], granule.live_bit, granule.bits);
    if (!agrees(granule.change, static_cast<Unit>(LowBits(granule.bits) << granule.shift),
                static_cast<Unit>(bits << granule.shift))) {
      return false;
    }
  }
  return true;
}

// Reads what lies at every target of every stretch, in their order.
template <typename Unit>
void Gather(const PlannedRecord& planned, LiveScratch* scratch) {
  scratch->olds.clear();
  TargetLister lister(planned, TargetLister::Which::kAll);
  while (lister.Next(&scratch->targets)) {
    const size_t done = scratch->olds.size();
    scratch->olds.resize(done + scratch->targets.count * sizeof(Unit));
    uint8_t* olds = scratch->olds.data() + done;
    ForTargets<false>(scratch->targets, [&](uint32_t i, uint64_t address, uint32_t /*change*/) {
      StoreLe<Unit>(olds + i * sizeof(Unit), LoadLe<Unit>(ByteAt(address)));
    });
  }
}

template <typename Unit>
LiveSums WeighUnits(const PlannedRecord& planned, LiveScratch* scratch) {
  LiveSums sums;
  Gather<Unit>(planned, scratch);
  const uint32_t* offsets = planned.record->offsets.data();
  const uint8_t* xors = planned.record->xors.data();
  const uint8_t* olds = scratch->olds.data();
  for (const LiveStretch& stretch : planned.plan->stretches) {
    const uint64_t count = stretch.end - stretch.begin;
    if (stretch.counted) {
      WeighStretchPortable(sizeof(Unit),
                           {planned.tensor_keys[stretch.tensor_index], stretch.canonical_origin, count, offsets + stretch.begin,
                            olds, xors + stretch.begin * sizeof(Unit)},
                           &sums.counted);
      sums.counted_bits += count * 8 * sizeof(Unit);
    }
    if (stretch.written) {
      const uint64_t base = AddressOf(planned.places[stretch.place_index].data()) + stretch.live_origin;
      for (uint64_t i = 0; i < count; ++i) {
        sums.written +=
            AddressWeight(base + uint64_t{offsets[stretch.begin + i]} * sizeof(Unit)) * LoadLe<Unit>(olds + i * sizeof(Unit));
      }
      sums.written_bits += count * 8 * sizeof(Unit);
    }
    olds += count * sizeof(Unit);
  }
  for (const CastStretch& cast : planned.plan->casts) WeighCast<Unit>(planned, cast, &sums);
  for (const LiveGranule& granule : planned.plan->granules) WeighGranule<Unit>(planned, granule, &sums);
  if (planned.plan->has_copies) sums.copies_agree &= CopiesAgree<Unit>(planned);
  return sums;
}

// XORs what is written of the stretches, and sums what it met if asked.
template <typename Unit, bool kWeigh>
void XorStretches(const PlannedRecord& planned, LiveScratch* scratch, uint64_t* met) {
  const uint8_t* xors = planned.record->xors.data();
  uint64_t sum = 0;
  TargetLister lister(planned, TargetLister::Which::kWritten);
  while (lister.Next(&scratch->targets)) {
    ForTargets<true>(scratch->targets, [&](uint32_t /*i*/, uint64_t address, uint32_t change) {
      const Unit old_bits = LoadLe<Unit>(ByteAt(address));
      StoreLe<Unit>(ByteAt(address), static_cast<Unit>(old_bits ^ LoadLe<Unit>(xors + uint64_t{change} * sizeof(Unit))));
      if constexpr (kWeigh) sum += AddressWeight(address) * old_bits;
    });
  }
  if constexpr (kWeigh) *met += sum;
}

template <typename Unit, bool kWeigh>
void XorGranules(const PlannedRecord& planned, uint64_t* met) {
  for (const LiveGranule& granule : planned.plan->granules) {
    if (!granule.written) continue;
    const uint64_t xor_bits = XorBitsOf<Unit>(planned, granule.change) >> granule.shift & LowBits(granule.bits);
    const uint64_t old_bits = XorGranule(planned.places[granule.place_index], granule.live_bit, granule.bits, xor_bits);
    if constexpr (kWeigh) *met += AddressWeight(PositionOf(planned, granule)) * old_bits;
  }
}

// Brings casts after their kept copies, which have been XORed. False if one was neither here nor there.
template <typename Unit>
bool StoreCasts(const PlannedRecord& planned) {
  bool all_fit = true;
  for (const CastStretch& cast : planned.plan->casts) {
    if (!cast.at.written) continue;
    const uint32_t result_bytes = LiveBitsOf(cast.cast, 8 * sizeof(Unit)) / 8;
    ForCast<Unit>(planned, cast, [&](const uint8_t* kept, uint8_t* live, uint64_t /*at*/, uint32_t i) {
      const uint64_t new_bits = LoadLe<Unit>(kept);
      const uint64_t new_cast = CastBits(cast.cast, new_bits);
      const bool fits = UnitBits(live, result_bytes) == CastBits(cast.cast, new_bits ^ XorBitsOf<Unit>(planned, i));
      all_fit &= fits;
      if (fits) std::memcpy(live, &new_cast, result_bytes);
    });
  }
  return all_fit;
}

}  // namespace

LiveSums WeighRecord(const PlannedRecord& planned, LiveScratch* scratch) {
  return WithUnit(planned.unit_bytes, [&]<typename Unit>() { return WeighUnits<Unit>(planned, scratch); });
}

bool XorRecord(const PlannedRecord& planned, LiveScratch* scratch, uint64_t* met) {
  return WithUnit(planned.unit_bytes, [&]<typename Unit>() {
    XorStretches<Unit, true>(planned, scratch, met);
    XorGranules<Unit, true>(planned, met);
    return StoreCasts<Unit>(planned);
  });
}

void UnXorRecord(const PlannedRecord& planned, LiveScratch* scratch) {
  WithUnit(planned.unit_bytes, [&]<typename Unit>() {
    XorStretches<Unit, false>(planned, scratch, nullptr);
    XorGranules<Unit, false>(planned, nullptr);
    // A cast that did not fit when it was stored does not fit now either, and stays.
    StoreCasts<Unit>(planned);
  });
}

}  // namespace xorbit
