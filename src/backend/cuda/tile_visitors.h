// What pre-flight, apply, undo and comparison do with each change of a tile, as visitors of tile_decode.h.
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

// Reads the old values: sums of them and of what they will become, and a copy for the undo log.
template <typename Unit, bool kKeepLog>
class PreflightVisitor {
 public:
  XORBIT_DEVICE explicit PreflightVisitor(const TileContext& tile)
      : tile_(tile), first_(tile.record.first), places_(*tile.segment, tile.start.span_index) {}

  XORBIT_DEVICE void Visit(bool active, uint32_t change_index, uint32_t offset, Unit bits) {
    if (!active) return;
    const uint64_t element = first_ + offset;
    places_.Seek(element);
    if (!places_.is_local()) return;
    const Unit old = LoadElement<Unit>(places_.LiveAddressOf(element, sizeof(Unit)));
    if constexpr (kKeepLog) *LoggedValue<Unit>(tile_, change_index) = old;
    const ElementWeight weight(places_.tensor_key(), places_.TensorByteOf(element, sizeof(Unit)), tile_.word_factors);
    const auto target = static_cast<Unit>(old ^ bits);
    before_ += weight.Lane0(old);
    after_ += weight.Lane0(target);
    lane1_change_ += weight.Lane1(target) - weight.Lane1(old);
    ++local_count_;
  }

  // All lanes together.
  XORBIT_DEVICE TileSums Sums() const { return {WarpSum(before_), WarpSum(after_)}; }
  XORBIT_DEVICE uint64_t Lane1Change() const { return WarpSum(lane1_change_); }
  XORBIT_DEVICE uint64_t LocalCount() const { return WarpSum(local_count_); }

 private:
  TileContext tile_;
  uint64_t first_;
  PlaceFinder places_;
  uint64_t before_ = 0;
  uint64_t after_ = 0;
  uint64_t lane1_change_ = 0;
  uint32_t local_count_ = 0;
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
      : tile_(tile), first_(tile.record.first), places_(*tile.segment, tile.start.span_index) {}

  XORBIT_DEVICE void Visit(bool active, uint32_t change_index, uint32_t offset, Unit bits) {
    if (!active) return;
    const uint64_t element = first_ + offset;
    places_.Seek(element);
    if (!places_.is_local()) return;
    const Unit found = Write(places_.LiveAddressOf(element, sizeof(Unit)), change_index, bits);
    if constexpr (kKind == ApplyKind::kReturningXor || kKind == ApplyKind::kCompare) {
      const ElementWeight weight(places_.tensor_key(), places_.TensorByteOf(element, sizeof(Unit)), tile_.word_factors);
      found_ += weight.Lane0(found);
    }
  }

  // Lane 0 over what the writes met, or a comparison found. All lanes together.
  XORBIT_DEVICE uint64_t Found() const { return WarpSum(found_); }

 private:
  XORBIT_DEVICE Unit Write(uint64_t address, uint32_t change_index, Unit bits) {
    if constexpr (kKind == ApplyKind::kReturningXor || kKind == ApplyKind::kXor) {
      constexpr bool kReturn = kKind == ApplyKind::kReturningXor;
      if (places_.is_ragged()) {
        return XorRaggedElement<Unit, kReturn>(address, bits, tile_.update->regions[places_.region_index()]);
      }
      return XorElement<Unit, kReturn>(address, bits);
    } else if constexpr (kKind == ApplyKind::kCompare) {
      return LoadElement<Unit>(address);
    } else {
      const Unit old = *LoggedValue<Unit>(tile_, change_index);
      StoreElement<Unit>(address, kKind == ApplyKind::kStore ? static_cast<Unit>(old ^ bits) : old);
      return old;
    }
  }

  TileContext tile_;
  uint64_t first_;
  PlaceFinder places_;
  uint64_t found_ = 0;
};

}  // namespace xorbit::cuda
