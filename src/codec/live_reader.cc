#include "codec/live_reader.h"

#include "tensor/live_bits.h"

namespace xorbit {

LiveReader::LiveReader(const LiveMemory& live) : planner_(*live.map), places_(PlaceBytesOf(live)) {}

template <typename Unit>
void LiveReader::Read(uint32_t tensor_index, uint64_t to_tensor, std::span<const uint32_t> offsets,
                      std::vector<LiveValue<Unit>>* values) {
  values->assign(offsets.size(), {});
  if (offsets.empty()) return;
  plan_.Clear();
  planner_.Add(tensor_index, sizeof(Unit), to_tensor, offsets.data(), 0, static_cast<uint32_t>(offsets.size()), &plan_);
  constexpr auto kAll = static_cast<Unit>(~Unit{0});
  for (const LiveStretch& stretch : plan_.stretches) {
    const uint8_t* place = places_[stretch.place_index].data();
    for (uint32_t i = stretch.begin; i < stretch.end; ++i) {
      LiveValue<Unit>& value = (*values)[i];
      value.bits = LoadLe<Unit>(place + (stretch.live_origin + uint64_t{offsets[i]} * sizeof(Unit)));
      value.held = kAll;
      if (stretch.counted) value.counted = kAll;
    }
  }
  for (const CastStretch& cast : plan_.casts) {
    if (!cast.at.counted) continue;
    for (uint32_t i = cast.at.begin; i < cast.at.end; ++i) (*values)[i].counted = kAll;
  }
  for (const LiveGranule& granule : plan_.granules) {
    LiveValue<Unit>& value = (*values)[granule.change];
    const auto mask = static_cast<Unit>(LowBits(granule.bits) << granule.shift);
    const uint64_t bits = LoadGranule(places_[granule.place_index], granule.live_bit, granule.bits) << granule.shift;
    value.bits = static_cast<Unit>((value.bits & ~mask) | bits);
    value.held = static_cast<Unit>(value.held | mask);
    if (granule.counted) value.counted = static_cast<Unit>(value.counted | mask);
  }
}

template void LiveReader::Read(uint32_t, uint64_t, std::span<const uint32_t>, std::vector<LiveValue<uint8_t>>*);
template void LiveReader::Read(uint32_t, uint64_t, std::span<const uint32_t>, std::vector<LiveValue<uint16_t>>*);
template void LiveReader::Read(uint32_t, uint64_t, std::span<const uint32_t>, std::vector<LiveValue<uint32_t>>*);
template void LiveReader::Read(uint32_t, uint64_t, std::span<const uint32_t>, std::vector<LiveValue<uint64_t>>*);

}  // namespace xorbit
