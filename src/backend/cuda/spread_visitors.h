// What pre-flight, apply, undo and comparison do with each change of a tile, as visitors of tile_modes.h: the general way, for
// elements that lie in several places, in halves, or off their alignment. box_visitors.h is for all others.
#pragma once

#include "backend/cuda/live_copies.h"

namespace xorbit::cuda {

// What pre-flight reads of one element or of many.
struct PreflightFindings {
  TileSums local{};    // over every copy that apply writes
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
                      if (copy.written) {
                        found.local.before += before;
                        found.local.after += after;
                        found.local_bits += copy.bit_count();
                      }
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
class SpreadPreflight {
 public:
  XORBIT_DEVICE explicit SpreadPreflight(const TileContext& tile) : tile_(tile) {}

  XORBIT_DEVICE void Visit(bool active, uint32_t change_index, uint32_t offset, uint32_t /*last*/, Unit bits) {
    if (!active) return;
    Unit* log = kKeepLog ? LoggedValue<Unit>(tile_, change_index) : nullptr;
    found_.Add(PreflightElement<Unit>(tile_.update, tile_.segment, tile_.word_factors, {tile_.start.part_index, 0},
                                      tile_.record.first + offset, bits, log));
  }

  // Sums over all lanes, in every lane. All lanes together, once.
  XORBIT_DEVICE PreflightFindings Finish() {
    return {{WarpSum(found_.local.before), WarpSum(found_.local.after)},
            {WarpSum(found_.counted.before), WarpSum(found_.counted.after)},
            WarpSum(found_.lane1_change),
            static_cast<uint32_t>(WarpSum(found_.local_bits)),
            static_cast<uint32_t>(WarpSum(found_.counted_bits)),
            AnyLane(found_.replicas_differ)};
  }

 private:
  TileContext tile_;
  PreflightFindings found_;
};

// How apply writes. Returning XOR checks what it met at once; XOR alone needs a comparison after it.
enum class ApplyKind : uint8_t {
  kReturningXor,  // and sums the old values; the only kind that streams
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
        if (!copy.written) return;
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
class SpreadApply {
  static constexpr bool kUsesLog = kKind == ApplyKind::kStore || kKind == ApplyKind::kRestore;

 public:
  XORBIT_DEVICE explicit SpreadApply(const TileContext& tile) : tile_(tile) {}

  XORBIT_DEVICE void Visit(bool active, [[maybe_unused]] uint32_t change_index, uint32_t offset, uint32_t /*last*/, Unit bits) {
    if (!active) return;
    const Unit* log = kUsesLog ? LoggedValue<Unit>(tile_, change_index) : nullptr;
    const ApplyFindings found = ApplyElement<Unit, kKind>(tile_.update, tile_.segment, tile_.word_factors,
                                                          {tile_.start.part_index, 0}, tile_.record.first + offset, bits, log);
    found_.sum += found.sum;
    found_.misfits |= found.misfits;
  }

  // Over all lanes. All lanes together, once.
  XORBIT_DEVICE ApplyFindings Finish() const { return {WarpSum(found_.sum), AnyLane(found_.misfits)}; }

 private:
  TileContext tile_;
  ApplyFindings found_;
};

}  // namespace xorbit::cuda
