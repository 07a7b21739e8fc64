#include "backend/cpu/touch_log.h"

#include <atomic>

#include "backend/cpu/live_address.h"
#include "base/unit.h"
#include "tensor/live_bits.h"
#include "tensor/live_cast.h"

namespace xorbit {
namespace {

// Offsets are from the middle of what 32 bits can reach, because copies and regions come in no order.
constexpr uint64_t kReach = uint64_t{1} << 31;

uint32_t ValueBytesOf(uint32_t width_bits) { return width_bits < 8 ? 1 : width_bits / 8; }

// Replaces half a byte by change(its value), whatever happens to the other half meanwhile, and returns what it was.
template <typename Change>
uint64_t UpdateNibble(uint64_t position, Change&& change) {
  const std::atomic_ref byte(*ByteAt(position / 2));
  const auto shift = static_cast<uint32_t>(position % 2 * kNibbleBits);
  uint8_t seen = byte.load(std::memory_order_relaxed);
  while (true) {
    const uint64_t old_bits = uint64_t{seen} >> shift & LowBits(kNibbleBits);
    const uint64_t rest = seen & ~(LowBits(kNibbleBits) << shift);
    const auto wanted = static_cast<uint8_t>(rest | change(old_bits) << shift);
    if (byte.compare_exchange_weak(seen, wanted, std::memory_order_relaxed)) return old_bits;
  }
}

// Replaces every element of a block by change(index, value) and calls met(position, value that was there).
template <typename Unit, typename Change, typename Met>
void UpdateBytes(uint64_t base, const uint32_t* offsets, uint64_t count, Change&& change, Met&& met) {
  for (uint64_t i = 0; i < count; ++i) {
    if (i + kLiveLookAhead < count) __builtin_prefetch(ByteAt(base + offsets[i + kLiveLookAhead]), 1);
    uint8_t* byte = ByteAt(base + offsets[i]);
    const Unit old_bits = LoadLe<Unit>(byte);
    StoreLe<Unit>(byte, change(i, old_bits));
    met(base + offsets[i], old_bits);
  }
}

template <typename Change, typename Met>
void UpdateNibbles(uint64_t base, const uint32_t* offsets, uint64_t count, Change&& change, Met&& met) {
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t position = base + offsets[i];
    met(position, UpdateNibble(position, [&](uint64_t old_bits) { return change(i, static_cast<uint8_t>(old_bits)); }));
  }
}

// UpdateBytes or UpdateNibbles with change.operator()<Unit>(index, old).
template <typename Change, typename Met>
void Update(uint32_t width_bits, uint64_t base, const uint32_t* offsets, uint64_t count, Change&& change, Met&& met) {
  if (width_bits == kNibbleBits) {
    return UpdateNibbles(
        base, offsets, count, [&](uint64_t i, uint8_t old_bits) { return change.template operator()<uint8_t>(i, old_bits); },
        met);
  }
  WithUnit(width_bits / 8, [&]<typename Unit>() {
    UpdateBytes<Unit>(
        base, offsets, count, [&](uint64_t i, Unit old_bits) { return change.template operator()<Unit>(i, old_bits); }, met);
  });
}

}  // namespace

void TouchLog::Add(uint64_t position, uint32_t width_bits, uint64_t old_bits, uint64_t xor_bits) {
  if (xor_bits == 0) return;
  if (blocks_.empty() || blocks_.back().width_bits != width_bits || position - blocks_.back().base > UINT32_MAX) {
    blocks_.push_back(
        {.base = position - kReach, .first = offsets_.size(), .value_offset = xors_.size(), .width_bits = width_bits});
  }
  Block& block = blocks_.back();
  ++block.count;
  offsets_.push_back(static_cast<uint32_t>(position - block.base));
  const auto append = [&](Buffer& values, uint64_t bits) {
    const size_t at = values.size();
    values.resize(at + ValueBytesOf(width_bits));
    std::memcpy(values.data() + at, &bits, ValueBytesOf(width_bits));
  };
  append(xors_, xor_bits);
  if (with_olds_) append(olds_, old_bits);
  before_ += AddressWeight(position) * old_bits;
}

template <typename Unit>
void TouchLog::AppendUnits(const PlannedRecord& planned) {
  const uint32_t* offsets = planned.record->offsets.data();
  const auto xor_bits_of = [&](uint32_t i) {
    return UnitBits(planned.record->xors.data() + uint64_t{i} * sizeof(Unit), sizeof(Unit));
  };
  for (const LiveStretch& stretch : planned.plan->stretches) {
    if (!stretch.written) continue;
    const uint8_t* live = planned.places[stretch.place_index].data();
    for (uint32_t i = stretch.begin; i < stretch.end; ++i) {
      const uint8_t* byte = live + (stretch.live_origin + uint64_t{offsets[i]} * sizeof(Unit));
      Add(AddressOf(byte), 8 * sizeof(Unit), LoadLe<Unit>(byte), xor_bits_of(i));
    }
  }
  for (const CastStretch& cast : planned.plan->casts) {
    if (!cast.at.written) continue;
    const uint32_t result_bytes = LiveBitsOf(cast.cast, 8 * sizeof(Unit)) / 8;
    for (uint32_t i = cast.at.begin; i < cast.at.end; ++i) {
      const uint64_t kept_at = cast.at.canonical_origin + uint64_t{offsets[i]} * sizeof(Unit);
      const uint64_t old_bits = LoadLe<Unit>(planned.places[cast.kept_place_index].data() + kept_at);
      const uint8_t* byte =
          planned.places[cast.at.place_index].data() + (cast.at.live_origin + uint64_t{offsets[i]} * result_bytes);
      const uint64_t old_cast = CastBits(cast.cast, old_bits);
      Add(AddressOf(byte), 8 * result_bytes, old_cast, old_cast ^ CastBits(cast.cast, old_bits ^ xor_bits_of(i)));
    }
  }
  for (const LiveGranule& granule : planned.plan->granules) {
    if (!granule.written) continue;
    const MutableBytes place = planned.places[granule.place_index];
    const uint64_t position = granule.bits == kNibbleBits ? 2 * AddressOf(place.data()) + granule.live_bit / kNibbleBits
                                                          : AddressOf(place.data()) + granule.live_bit / 8;
    Add(position, granule.bits, LoadGranule(place, granule.live_bit, granule.bits),
        xor_bits_of(granule.change) >> granule.shift & LowBits(granule.bits));
  }
}

void TouchLog::Append(const PlannedRecord& planned) {
  WithUnit(planned.unit_bytes, [&]<typename Unit>() { AppendUnits<Unit>(planned); });
}

void TouchLog::ShrinkToFit() {
  blocks_.shrink_to_fit();
  offsets_.shrink_to_fit();
  xors_.shrink_to_fit();
  olds_.shrink_to_fit();
}

uint64_t TouchLog::byte_count() const {
  return sizeof(*this) + blocks_.size() * sizeof(Block) + offsets_.size() * sizeof(uint32_t) + xors_.size() + olds_.size();
}

bool TouchLog::Xor() const {
  uint64_t met_sum = 0;
  for (const Block& block : blocks_) {
    const uint8_t* xors = xors_.data() + block.value_offset;
    Update(
        block.width_bits, block.base, offsets_.data() + block.first, block.count,
        [&]<typename Unit>(uint64_t i, Unit old_bits) {
          return static_cast<Unit>(old_bits ^ LoadLe<Unit>(xors + i * sizeof(Unit)));
        },
        [&](uint64_t position, uint64_t old_bits) { met_sum += AddressWeight(position) * old_bits; });
  }
  return met_sum == before_;
}

template <typename Choose>
void TouchLog::StoreEach(Choose&& choose) const {
  for (const Block& block : blocks_) {
    const uint8_t* xors = xors_.data() + block.value_offset;
    const uint8_t* olds = olds_.data() + block.value_offset;
    Update(
        block.width_bits, block.base, offsets_.data() + block.first, block.count,
        [&]<typename Unit>(uint64_t i, Unit met) {
          const Unit old_bits = LoadLe<Unit>(olds + i * sizeof(Unit));
          const auto new_bits = static_cast<Unit>(old_bits ^ LoadLe<Unit>(xors + i * sizeof(Unit)));
          return choose(met, old_bits, new_bits);
        },
        [](uint64_t /*position*/, uint64_t /*met*/) {});
  }
}

bool TouchLog::StoreNew() const {
  bool all_fit = true;
  StoreEach([&]<typename Unit>(Unit met, Unit old_bits, Unit new_bits) {
    const bool fits = met == old_bits || met == new_bits;
    all_fit &= fits;
    return fits ? new_bits : met;
  });
  return all_fit;
}

void TouchLog::StoreOld() const {
  StoreEach([]<typename Unit>(Unit met, Unit old_bits, Unit new_bits) { return met == new_bits ? old_bits : met; });
}

}  // namespace xorbit
