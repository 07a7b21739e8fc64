#include "backend/cpu/live_kernels.h"

#include <algorithm>

#include "base/unit.h"
#include "tensor/live_bits.h"
#include "tensor/live_cast.h"

namespace xorbit {
namespace {

// Far enough ahead that a cache line from memory is there when its element's turn comes, near enough to stay in the cache.
constexpr uint32_t kPrefetchDistance = 24;

// Runs kPrefetchDistance changes ahead of a loop over stretches, through however many of them, and asks for memory.
template <typename Unit, bool kStore>
class Prefetcher {
 public:
  explicit Prefetcher(const PlannedRecord& planned)
      : places_(planned.places),
        offsets_(planned.record->offsets.data()),
        stretch_(planned.plan->stretches.data()),
        end_(stretch_ + planned.plan->stretches.size()) {
    if (!done()) Enter();
    for (uint32_t left = kPrefetchDistance; left > 0 && !done();) {
      const uint32_t count = std::min(left, room());
      for (uint32_t i = 0; i < count; ++i) Fetch(i);
      Advance(count);
      left -= count;
    }
  }

  bool done() const { return stretch_ == end_; }
  // Changes left in the stretch that it has come to.
  uint32_t room() const { return stretch_->end - next_; }
  // Asks for the element `ahead` changes on, ahead < room().
  void Fetch(uint32_t ahead) const {
    __builtin_prefetch(live_ + (origin_ + uint64_t{offsets_[next_ + ahead]} * sizeof(Unit)), kStore ? 1 : 0);
  }
  void Advance(uint32_t count) {
    next_ += count;
    if (next_ < stretch_->end) return;
    if (++stretch_ != end_) Enter();
  }

 private:
  void Enter() {
    live_ = places_[stretch_->place_index].data();
    origin_ = stretch_->live_origin;
    next_ = stretch_->begin;
  }

  std::span<const MutableBytes> places_;
  const uint32_t* offsets_;
  const LiveStretch* stretch_;
  const LiveStretch* end_;
  const uint8_t* live_ = nullptr;
  uint64_t origin_ = 0;
  uint32_t next_ = 0;
};

// Calls element(i) for every change of the stretch.
template <typename Unit, bool kStore, typename Element>
inline void ForStretch(const LiveStretch& stretch, Prefetcher<Unit, kStore>* ahead, Element&& element) {
  for (uint32_t i = stretch.begin; i < stretch.end;) {
    if (ahead->done()) {
      for (; i < stretch.end; ++i) element(i);
      return;
    }
    const uint32_t count = std::min(stretch.end - i, ahead->room());
    for (uint32_t k = 0; k < count; ++k) {
      ahead->Fetch(k);
      element(i + k);
    }
    ahead->Advance(count);
    i += count;
  }
}

// One stretch: sums it, XORs it, or both.
template <typename Unit, bool kStore, bool kWeigh, bool kBothLanes>
inline ChangeDigest WalkStretch(const PlannedRecord& planned, const LiveStretch& stretch, Prefetcher<Unit, kStore>* ahead) {
  ChangeDigest sum;
  const uint32_t* offsets = planned.record->offsets.data();
  const uint8_t* xors = planned.record->xors.data();
  const uint64_t key = planned.tensor_keys[stretch.tensor_index];
  uint8_t* live = planned.places[stretch.place_index].data();
  ForStretch<Unit, kStore>(stretch, ahead, [&](uint32_t i) {
    const uint64_t offset = uint64_t{offsets[i]} * sizeof(Unit);
    uint8_t* address = live + (stretch.live_origin + offset);
    const Unit old_bits = LoadLe<Unit>(address);
    const Unit new_bits = static_cast<Unit>(old_bits ^ LoadLe<Unit>(xors + uint64_t{i} * sizeof(Unit)));
    if constexpr (kStore) StoreLe<Unit>(address, new_bits);
    if constexpr (kWeigh) {
      const uint64_t at = stretch.canonical_origin + offset;
      AddElement<Unit, kBothLanes>(BlockFactorsOf(key, at / kDigestBlockBytes), at, old_bits, new_bits, &sum);
    }
  });
  return sum;
}

template <typename Unit>
uint64_t XorBitsOf(const PlannedRecord& planned, uint32_t change) {
  return LoadLe<Unit>(planned.record->xors.data() + uint64_t{change} * sizeof(Unit));
}

void AddWritten(const ChangeDigest& sum, RecordSums* written) { *written += RecordSums{sum.before, sum.after}; }

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
  const uint64_t old_bits = LoadGranule(planned.places[granule.place_index], granule.live_bit, granule.bits) << granule.shift;
  const uint64_t new_bits = old_bits ^ (XorBitsOf<Unit>(planned, granule.change) & mask << granule.shift);
  const uint64_t at = granule.canonical_byte;
  const BlockFactors factors = BlockFactorsOf(planned.tensor_keys[granule.tensor_index], at / kDigestBlockBytes);
  ChangeDigest sum;
  AddElement<Unit>(factors, at, old_bits, new_bits, &sum);
  if (granule.written) {
    AddWritten(sum, &sums->written);
    sums->written_bits += granule.bits;
  }
  if (granule.counted) {
    sums->counted += sum;
    sums->counted_bits += granule.bits;
  }
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

template <typename Unit>
LiveSums WeighUnits(const PlannedRecord& planned) {
  LiveSums sums;
  Prefetcher<Unit, false> ahead(planned);
  for (const LiveStretch& stretch : planned.plan->stretches) {
    const ChangeDigest sum = WalkStretch<Unit, false, true, true>(planned, stretch, &ahead);
    const uint64_t bits = uint64_t{stretch.end - stretch.begin} * 8 * sizeof(Unit);
    if (stretch.counted) {
      sums.counted += sum;
      sums.counted_bits += bits;
    }
    if (!stretch.written) continue;
    AddWritten(sum, &sums.written);
    sums.written_bits += bits;
  }
  for (const CastStretch& cast : planned.plan->casts) WeighCast<Unit>(planned, cast, &sums);
  for (const LiveGranule& granule : planned.plan->granules) WeighGranule<Unit>(planned, granule, &sums);
  if (planned.plan->has_copies) sums.copies_agree &= CopiesAgree<Unit>(planned);
  return sums;
}

// Stores what is written of a stretch, and sums if asked.
template <typename Unit, bool kWeigh>
void StoreStretches(const PlannedRecord& planned, RecordSums* written) {
  Prefetcher<Unit, true> ahead(planned);
  for (const LiveStretch& stretch : planned.plan->stretches) {
    if (!stretch.written) continue;
    const ChangeDigest sum = WalkStretch<Unit, true, kWeigh, false>(planned, stretch, &ahead);
    if constexpr (kWeigh) AddWritten(sum, written);
  }
}

template <typename Unit, bool kWeigh>
void StoreGranules(const PlannedRecord& planned, RecordSums* written) {
  for (const LiveGranule& granule : planned.plan->granules) {
    if (!granule.written) continue;
    const uint64_t xor_bits = XorBitsOf<Unit>(planned, granule.change) >> granule.shift & LowBits(granule.bits);
    const uint64_t old_bits = XorGranule(planned.places[granule.place_index], granule.live_bit, granule.bits, xor_bits);
    if constexpr (kWeigh) {
      const uint64_t at = granule.canonical_byte;
      ChangeDigest sum;
      AddElement<Unit, false>(BlockFactorsOf(planned.tensor_keys[granule.tensor_index], at / kDigestBlockBytes), at,
                              old_bits << granule.shift, (old_bits ^ xor_bits) << granule.shift, &sum);
      AddWritten(sum, written);
    }
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

LiveSums WeighRecord(const PlannedRecord& planned) {
  return WithUnit(planned.unit_bytes, [&]<typename Unit>() { return WeighUnits<Unit>(planned); });
}

bool XorRecord(const PlannedRecord& planned, RecordSums* written) {
  return WithUnit(planned.unit_bytes, [&]<typename Unit>() {
    StoreStretches<Unit, true>(planned, written);
    StoreGranules<Unit, true>(planned, written);
    return StoreCasts<Unit>(planned);
  });
}

void UnXorRecord(const PlannedRecord& planned) {
  WithUnit(planned.unit_bytes, [&]<typename Unit>() {
    StoreStretches<Unit, false>(planned, nullptr);
    StoreGranules<Unit, false>(planned, nullptr);
    // A cast that did not fit when it was stored does not fit now either, and stays.
    StoreCasts<Unit>(planned);
  });
}

}  // namespace xorbit
