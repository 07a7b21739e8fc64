// What pre-flight, apply, undo and comparison do with each change of a tile, as visitors of tile_decode.h.
//
// What live memory answers is used one step later, after the next 32 changes have been decoded, so that a warp does not wait
// for it.
#pragma once

#include "backend/cuda/run_visitor.h"

namespace xorbit::cuda {

// What pre-flight reads of one element or of many.
struct PreflightFindings {
  TileSums local{};    // over every copy
  TileSums counted{};  // over those that this rank counts
  uint64_t lane1_change = 0;
  uint32_t local_bits = 0;
  uint32_t counted_bits = 0;
  bool replicas_differ = false;

  XORBIT_DEVICE void Add(const PreflightFindings& other) {
    local.before += other.local.before;
    local.after += other.local.after;
    counted.before += other.counted.before;
    counted.after += other.counted.after;
    lane1_change += other.lane1_change;
    local_bits += other.local_bits;
    counted_bits += other.counted_bits;
    replicas_differ |= other.replicas_differ;
  }
};

// All copies of one element. `log`: where its old value goes, or null.
template <typename Unit>
XORBIT_DEVICE_RARE PreflightFindings PreflightElement(const UpdateOnDevice* update, const SegmentOnDevice* segment,
                                                      const uint64_t* word_factors, PlaceHint hint, uint64_t element, Unit bits,
                                                      Unit* log) {
  PreflightFindings found;
  Unit value = 0;
  Unit known = 0;
  ForEachCopy<Unit>(*update, *segment, word_factors, hint, element,
                    [&](const LiveCopy<Unit>& copy, const ElementWeight<Unit>& weight) {
                      const Unit old = copy.Load();
                      const auto target = static_cast<Unit>((old ^ bits) & copy.mask());
                      found.replicas_differ |= ((old ^ value) & known & copy.mask()) != 0;
                      value = static_cast<Unit>(value | old);
                      known = static_cast<Unit>(known | copy.mask());
                      const uint64_t before = weight.Lane0(old);
                      const uint64_t after = weight.Lane0(target);
                      found.local.before += before;
                      found.local.after += after;
                      found.local_bits += copy.bit_count();
                      if (!copy.counted) return;
                      found.counted.before += before;
                      found.counted.after += after;
                      found.counted_bits += copy.bit_count();
                      found.lane1_change += weight.Lane1(target) - weight.Lane1(old);
                    });
  if (log != nullptr) *log = value;
  return found;
}

// Reads the old values: sums of them and of what they will become, and a copy for the undo log.
template <typename Unit, bool kKeepLog>
class PreflightVisitor : public RunVisitor<Unit, PreflightVisitor<Unit, kKeepLog>> {
  using Base = RunVisitor<Unit, PreflightVisitor>;

 public:
  XORBIT_DEVICE explicit PreflightVisitor(const TileContext& tile) : Base(tile) {}

  XORBIT_DEVICE void TakeInRun(uint32_t change_index, uint32_t offset, Unit bits) {
    old_ = LoadLive(reinterpret_cast<const Unit*>(this->AddressAt(offset)));
    bits_ = bits;
    weight_ = this->WeightAt(offset);
    if constexpr (kKeepLog) log_ = LoggedValue<Unit>(this->tile(), change_index);
    ++run_count_;
  }
  XORBIT_DEVICE void Settle() {
    const auto target = static_cast<Unit>(old_ ^ bits_);
    in_runs_.before += weight_.Lane0(old_);
    in_runs_.after += weight_.Lane0(target);
    lane1_change_ += weight_.Lane1(target) - weight_.Lane1(old_);
    weight_ = {};
    if constexpr (kKeepLog) {
      if (log_ != nullptr) *log_ = old_;
      log_ = nullptr;
    }
  }
  XORBIT_DEVICE void TakeApart(uint32_t change_index, uint64_t element, Unit bits) {
    const TileContext& tile = this->tile();
    Unit* log = kKeepLog ? LoggedValue<Unit>(tile, change_index) : nullptr;
    apart_.Add(
        PreflightElement<Unit>(tile.update, tile.segment, tile.word_factors, {tile.start.part_index, 0}, element, bits, log));
  }

  // Sums over all lanes, in every lane. All lanes together, once.
  XORBIT_DEVICE PreflightFindings Finish() {
    Settle();
    // What lies in runs is there once and counts.
    const uint32_t run_bits = run_count_ * static_cast<uint32_t>(8 * sizeof(Unit));
    apart_.Add({in_runs_, in_runs_, lane1_change_, run_bits, run_bits, false});
    return {{WarpSum(apart_.local.before), WarpSum(apart_.local.after)},
            {WarpSum(apart_.counted.before), WarpSum(apart_.counted.after)},
            WarpSum(apart_.lane1_change),
            static_cast<uint32_t>(WarpSum(apart_.local_bits)),
            static_cast<uint32_t>(WarpSum(apart_.counted_bits)),
            AnyLane(apart_.replicas_differ)};
  }

 private:
  TileSums in_runs_{};
  uint64_t lane1_change_ = 0;
  uint32_t run_count_ = 0;
  PreflightFindings apart_;
  // Read last, not yet used.
  Unit old_ = 0;
  Unit bits_ = 0;
  Unit* log_ = nullptr;
  ElementWeight<Unit> weight_;
};

// How apply writes. Returning XOR checks what it met at once; XOR alone needs a comparison after it.
enum class ApplyKind : uint8_t {
  kReturningXor,  // and sums the old values
  kXor,           // nothing comes back
  kStore,         // absolute: undo log ^ change, over that or the undo log
  kRestore,       // absolute: the undo log, over undo log ^ change; undoes any of them
  kCompare,       // writes nothing: sums what is there
};

// What apply met: lane 0 over the values, where they are summed, and whether stores met anything but old or new values.
struct ApplyFindings {
  uint64_t sum = 0;
  bool misfits = false;
};

// The part `mask` of an element by absolute stores.
template <typename Unit, ApplyKind kKind, typename StoreValue>
XORBIT_DEVICE bool StoreIfFits(Unit met, Unit old, Unit bits, Unit mask, StoreValue&& store) {
  const bool is_old = ((met ^ old) & mask) == 0;
  const bool is_new = ((met ^ old ^ bits) & mask) == 0;
  if constexpr (kKind == ApplyKind::kStore) {
    if (is_old) store(static_cast<Unit>(old ^ bits));
  } else {
    if (is_new) store(old);
  }
  return is_old || is_new;
}

template <typename Unit, ApplyKind kKind>
XORBIT_DEVICE_RARE ApplyFindings ApplyElement(const UpdateOnDevice* update, const SegmentOnDevice* segment,
                                              const uint64_t* word_factors, PlaceHint hint, uint64_t element, Unit bits,
                                              const Unit* log) {
  ApplyFindings found;
  ForEachCopy<Unit>(
      *update, *segment, word_factors, hint, element, [&](const LiveCopy<Unit>& copy, const ElementWeight<Unit>& weight) {
        if constexpr (kKind == ApplyKind::kReturningXor || kKind == ApplyKind::kXor) {
          found.sum += weight.Lane0(copy.Xor(bits));
        } else if constexpr (kKind == ApplyKind::kCompare) {
          found.sum += weight.Lane0(copy.Load());
        } else {
          found.misfits |=
              !StoreIfFits<Unit, kKind>(copy.Load(), *log, bits, copy.mask(), [&](Unit value) { copy.Store(value); });
        }
      });
  return found;
}

template <typename Unit, ApplyKind kKind>
class ApplyVisitor : public RunVisitor<Unit, ApplyVisitor<Unit, kKind>> {
  using Base = RunVisitor<Unit, ApplyVisitor>;
  static constexpr bool kUsesLog = kKind == ApplyKind::kStore || kKind == ApplyKind::kRestore;
  static constexpr bool kSums = kKind == ApplyKind::kReturningXor || kKind == ApplyKind::kCompare;

 public:
  XORBIT_DEVICE explicit ApplyVisitor(const TileContext& tile) : Base(tile) {}

  XORBIT_DEVICE void TakeInRun([[maybe_unused]] uint32_t change_index, uint32_t offset, Unit bits) {
    const uint64_t address = this->AddressAt(offset);
    auto* element = reinterpret_cast<Unit*>(address);
    if constexpr (kKind == ApplyKind::kReturningXor) {
      met_ = XorAligned<Unit, true>(address, bits);
      shift_ = XorShiftOf<Unit>(address);
    } else if constexpr (kKind == ApplyKind::kXor) {
      XorAligned<Unit, false>(address, bits);
    } else if constexpr (kKind == ApplyKind::kCompare) {
      met_ = LoadLive(element);
    } else {
      const Unit old = *LoggedValue<Unit>(this->tile(), change_index);
      const bool fits = StoreIfFits<Unit, kKind>(LoadLive(element), old, bits, static_cast<Unit>(~Unit{0}),
                                                 [&](Unit value) { *element = value; });
      found_.misfits |= !fits;
    }
    if constexpr (kSums) weight_ = this->WeightAt(offset);
  }
  XORBIT_DEVICE void Settle() {
    if constexpr (!kSums) return;
    found_.sum += weight_.Lane0(static_cast<Unit>(met_ >> shift_));
    weight_ = {};
  }
  XORBIT_DEVICE void TakeApart([[maybe_unused]] uint32_t change_index, uint64_t element, Unit bits) {
    const TileContext& tile = this->tile();
    const Unit* log = kUsesLog ? LoggedValue<Unit>(tile, change_index) : nullptr;
    const ApplyFindings found =
        ApplyElement<Unit, kKind>(tile.update, tile.segment, tile.word_factors, {tile.start.part_index, 0}, element, bits, log);
    found_.sum += found.sum;
    found_.misfits |= found.misfits;
  }

  // Over all lanes. All lanes together, once.
  XORBIT_DEVICE ApplyFindings Finish() {
    Settle();
    return {WarpSum(found_.sum), AnyLane(found_.misfits)};
  }

 private:
  ApplyFindings found_;
  // Met last, not yet used.
  XorWord<Unit> met_ = 0;
  uint32_t shift_ = 0;
  ElementWeight<Unit> weight_;
};

}  // namespace xorbit::cuda
