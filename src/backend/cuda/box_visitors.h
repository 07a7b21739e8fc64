// Pre-flight and apply for tiles that have boxes: the loops in which nearly all time goes.
//
// What live memory answers is used one step later, after the next 32 changes have been decoded, so that a warp does not wait
// for it.
#pragma once

#include "backend/cuda/box_finder.h"
#include "backend/cuda/spread_visitors.h"

namespace xorbit::cuda {

// An element that has been asked for: enough to weigh what comes back.
template <typename Unit>
struct PendingElement {
  uint64_t tensor_key = 0;
  uint64_t tensor_byte = 0;

  XORBIT_DEVICE ElementWeight<Unit> Weight(const uint64_t* word_factors) const {
    return {tensor_key, tensor_byte, word_factors};
  }
};

// Reads the old values: sums of them and of what they will become, and a copy for the undo log.
template <typename Unit, bool kKeepLog>
class BoxPreflight {
 public:
  XORBIT_DEVICE explicit BoxPreflight(const TileContext& tile) : tile_(tile), boxes_(tile) {}

  XORBIT_DEVICE void Visit(bool active, uint32_t change_index, uint32_t offset, uint32_t last, Unit bits) {
    const Place place = boxes_.Find(offset, last);
    Settle();
    const bool reads = active && place.present;
    pending_ = {place.tensor_key, place.tensor_byte};
    bits_ = reads ? bits : Unit{0};
    old_ = 0;
    if constexpr (kKeepLog) log_ = active ? LoggedValue<Unit>(tile_, change_index) : nullptr;
    if (reads) old_ = LoadLive(reinterpret_cast<const Unit*>(place.address));
    count_ += reads ? 1 : 0;
  }

  // Sums over all lanes, in every lane. All lanes together, once.
  XORBIT_DEVICE PreflightFindings Finish() {
    Settle();
    const TileSums sums{WarpSum(before_), WarpSum(after_)};
    const auto bits = static_cast<uint32_t>(WarpSum(count_) * 8 * sizeof(Unit));
    return {sums, sums, WarpSum(lane1_change_), bits, bits, false};
  }

 private:
  XORBIT_DEVICE void Settle() {
    const ElementWeight<Unit> weight = pending_.Weight(tile_.word_factors);
    const auto target = static_cast<Unit>(old_ ^ bits_);
    before_ += weight.Lane0(old_);
    after_ += weight.Lane0(target);
    lane1_change_ += weight.Lane1(target) - weight.Lane1(old_);
    if constexpr (kKeepLog) {
      if (log_ != nullptr) *log_ = old_;
    }
  }

  TileContext tile_;
  BoxFinder<Unit> boxes_;
  uint64_t before_ = 0;
  uint64_t after_ = 0;
  uint64_t lane1_change_ = 0;
  uint32_t count_ = 0;
  // Asked for last, not yet used.
  PendingElement<Unit> pending_;
  Unit old_ = 0;
  Unit bits_ = 0;
  Unit* log_ = nullptr;
};

template <typename Unit, ApplyKind kKind>
class BoxApply {
  static constexpr bool kSums = kKind == ApplyKind::kReturningXor || kKind == ApplyKind::kCompare;
  static constexpr bool kUsesLog = kKind == ApplyKind::kStore || kKind == ApplyKind::kRestore;

 public:
  XORBIT_DEVICE explicit BoxApply(const TileContext& tile) : tile_(tile), boxes_(tile) {}

  XORBIT_DEVICE void Visit(bool active, [[maybe_unused]] uint32_t change_index, uint32_t offset, uint32_t last, Unit bits) {
    const Place place = boxes_.Find(offset, last);
    Settle();
    const bool writes = active && place.present;
    met_ = 0;
    if constexpr (kSums) pending_ = {place.tensor_key, place.tensor_byte};
    if constexpr (kKind == ApplyKind::kReturningXor) shift_ = XorShiftOf<Unit>(place.address);
    address_ = writes ? place.address : 0;
    bits_ = bits;
    if (!writes) return;
    if constexpr (kKind == ApplyKind::kReturningXor) {
      met_ = XorAligned<Unit, true>(place.address, bits);
    } else if constexpr (kKind == ApplyKind::kXor) {
      XorAligned<Unit, false>(place.address, bits);
    } else {
      met_ = LoadLive(reinterpret_cast<const Unit*>(place.address));
      if constexpr (kUsesLog) old_ = *LoggedValue<Unit>(tile_, change_index);
    }
  }

  // Over all lanes. All lanes together, once.
  XORBIT_DEVICE ApplyFindings Finish() {
    Settle();
    return {WarpSum(found_.sum), AnyLane(found_.misfits)};
  }

 private:
  XORBIT_DEVICE void Settle() {
    const auto met = static_cast<Unit>(met_ >> shift_);
    if constexpr (kUsesLog) {
      if (address_ != 0) {
        auto* element = reinterpret_cast<Unit*>(address_);
        const bool fits =
            StoreIfFits<Unit, kKind>(met, old_, bits_, static_cast<Unit>(~Unit{0}), [&](Unit value) { *element = value; });
        found_.misfits |= !fits;
      }
    }
    if constexpr (kSums) found_.sum += pending_.Weight(tile_.word_factors).Lane0(met);
  }

  TileContext tile_;
  BoxFinder<Unit> boxes_;
  ApplyFindings found_;
  // Met last, not yet used.
  PendingElement<Unit> pending_;
  uint64_t address_ = 0;  // 0: nothing was met
  XorWord<Unit> met_ = 0;
  uint32_t shift_ = 0;
  Unit bits_ = 0;
  Unit old_ = 0;
};

}  // namespace xorbit::cuda
