#include "backend/cpu/touch_view.h"

#include <atomic>

#include "backend/cpu/live_address.h"
#include "base/unit.h"
#include "tensor/live_bits.h"

namespace xorbit {
namespace {

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

// Replaces every element of a block by change(index, value) and calls met(position, value that was there). Each is replaced by
// one store of its own width: who is killed leaves the old value or the new one.
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

}  // namespace

uint64_t TouchView::BaseOf(const TouchBlock& block) const {
  if (block.place_index == TouchBlock::kNoPlace) return block.base;
  const uint64_t place = AddressOf(places[block.place_index].data());
  return block.base + (block.width_bits == kNibbleBits ? 2 * place : place);
}

// UpdateBytes or UpdateNibbles of every block, with change.operator()<Unit>(index into the block's values, block, old).
template <typename Change, typename Met>
void TouchView::ForEach(Change&& change, Met&& met) const {
  for (const TouchBlock& block : blocks) {
    const uint64_t base = BaseOf(block);
    const uint32_t* at = offsets + block.first;
    if (block.width_bits == kNibbleBits) {
      UpdateNibbles(
          base, at, block.count,
          [&](uint64_t i, uint8_t old_bits) { return change.template operator()<uint8_t>(block, i, old_bits); }, met);
      continue;
    }
    WithUnit(block.width_bits / 8, [&]<typename Unit>() {
      UpdateBytes<Unit>(
          base, at, block.count,
          [&](uint64_t i, Unit old_bits) { return change.template operator()<Unit>(block, i, old_bits); }, met);
    });
  }
}

uint64_t TouchView::Xor() const {
  uint64_t met_sum = 0;
  ForEach(
      [&]<typename Unit>(const TouchBlock& block, uint64_t i, Unit old_bits) {
        return static_cast<Unit>(old_bits ^ LoadLe<Unit>(xors + block.value_offset + i * sizeof(Unit)));
      },
      [&](uint64_t position, uint64_t old_bits) { met_sum += AddressWeight(position) * old_bits; });
  return met_sum;
}

template <typename Choose>
void TouchView::StoreEach(Choose&& choose) const {
  ForEach(
      [&]<typename Unit>(const TouchBlock& block, uint64_t i, Unit met) {
        const Unit old_bits = LoadLe<Unit>(olds + block.value_offset + i * sizeof(Unit));
        const auto new_bits = static_cast<Unit>(old_bits ^ LoadLe<Unit>(xors + block.value_offset + i * sizeof(Unit)));
        return choose(met, old_bits, new_bits);
      },
      [](uint64_t /*position*/, uint64_t /*met*/) {});
}

bool TouchView::StoreNew() const {
  bool all_fit = true;
  StoreEach([&]<typename Unit>(Unit met, Unit old_bits, Unit new_bits) {
    const bool fits = met == old_bits || met == new_bits;
    all_fit &= fits;
    return fits ? new_bits : met;
  });
  return all_fit;
}

void TouchView::StoreOld() const {
  StoreEach([]<typename Unit>(Unit met, Unit old_bits, Unit new_bits) { return met == new_bits ? old_bits : met; });
}

bool TouchView::HoldsOldOrNew() const {
  for (const TouchBlock& block : blocks) {
    const uint64_t base = BaseOf(block);
    for (uint64_t i = 0; i < block.count; ++i) {
      const uint64_t position = base + offsets[block.first + i];
      const uint32_t value_bytes = ValueBytesOf(block.width_bits);
      const uint64_t at = block.value_offset + i * value_bytes;
      const bool is_half = block.width_bits == kNibbleBits;
      const uint64_t bits = UnitBits(ByteAt(is_half ? position / 2 : position), value_bytes);
      const uint64_t met = is_half ? bits >> (position % 2 * kNibbleBits) & LowBits(kNibbleBits) : bits;
      const uint64_t old_bits = UnitBits(olds + at, value_bytes);
      if (met != old_bits && met != (old_bits ^ UnitBits(xors + at, value_bytes))) return false;
    }
  }
  return true;
}

}  // namespace xorbit
