#include "backend/cpu/touch_log.h"

#include "backend/cpu/live_address.h"
#include "base/unit.h"
#include "tensor/live_bits.h"
#include "tensor/live_cast.h"

namespace xorbit {
namespace {

// Offsets are from the middle of what 32 bits can reach, because copies and regions come in no order.
constexpr uint64_t kReach = uint64_t{1} << 31;

}  // namespace

// `position` is in the place.
void TouchLog::Add(const PlannedRecord& planned, uint32_t place_index, uint64_t position, uint32_t width_bits,
                   uint64_t old_bits, uint64_t xor_bits) {
  if (xor_bits == 0) return;
  if (kind_ != TouchLogKind::kLastingUndo) {
    const uint64_t place = AddressOf(planned.places[place_index].data());
    position += width_bits == kNibbleBits ? 2 * place : place;
    place_index = TouchBlock::kNoPlace;
    before_ += AddressWeight(position) * old_bits;
  }
  if (blocks_.empty() || blocks_.back().width_bits != width_bits || blocks_.back().place_index != place_index ||
      position - blocks_.back().base > UINT32_MAX) {
    blocks_.push_back({position - kReach, offsets_.size(), 0, xors_.size(), width_bits, place_index});
  }
  TouchBlock& block = blocks_.back();
  ++block.count;
  offsets_.push_back(static_cast<uint32_t>(position - block.base));
  const auto append = [&](Buffer& values, uint64_t bits) {
    const size_t at = values.size();
    values.resize(at + ValueBytesOf(width_bits));
    std::memcpy(values.data() + at, &bits, ValueBytesOf(width_bits));
  };
  append(xors_, xor_bits);
  if (kind_ != TouchLogKind::kXors) append(olds_, old_bits);
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
      const uint64_t at = stretch.live_origin + uint64_t{offsets[i]} * sizeof(Unit);
      Add(planned, stretch.place_index, at, 8 * sizeof(Unit), LoadLe<Unit>(live + at), xor_bits_of(i));
    }
  }
  for (const CastStretch& cast : planned.plan->casts) {
    if (!cast.at.written) continue;
    const uint32_t result_bytes = LiveBitsOf(cast.cast, 8 * sizeof(Unit)) / 8;
    for (uint32_t i = cast.at.begin; i < cast.at.end; ++i) {
      const uint64_t kept_at = cast.at.canonical_origin + uint64_t{offsets[i]} * sizeof(Unit);
      const uint64_t old_bits = LoadLe<Unit>(planned.places[cast.kept_place_index].data() + kept_at);
      const uint64_t old_cast = CastBits(cast.cast, old_bits);
      Add(planned, cast.at.place_index, cast.at.live_origin + uint64_t{offsets[i]} * result_bytes, 8 * result_bytes, old_cast,
          old_cast ^ CastBits(cast.cast, old_bits ^ xor_bits_of(i)));
    }
  }
  for (const LiveGranule& granule : planned.plan->granules) {
    if (!granule.written) continue;
    const uint64_t position = granule.live_bit / (granule.bits == kNibbleBits ? kNibbleBits : 8);
    Add(planned, granule.place_index, position, granule.bits,
        LoadGranule(planned.places[granule.place_index], granule.live_bit, granule.bits),
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
  return sizeof(*this) + blocks_.size() * sizeof(TouchBlock) + offsets_.size() * sizeof(uint32_t) + xors_.size() + olds_.size();
}

}  // namespace xorbit
