// Goes over a tile's mask and hands its changes to a visitor of tiles (box_visitors.h, spread_visitors.h), 32 at a time.
//
// A mask is read by vectors, of groups that are marked, most of which are zero. Elements that change go into a queue, in order:
// a visit costs the same for one change as for 32, and without the queue most would be for one. Scanning and visiting take
// turns instead of being one loop: what a visitor keeps would take the registers in which the scan has its next vectors on
// their way.
#pragma once

#include <array>

#include "backend/cuda/mask/masks_on_device.h"
#include "backend/cuda/word_vector.h"

namespace xorbit::cuda {

// A bit for each element of the vector that is not zero.
template <typename Unit>
XORBIT_DEVICE uint32_t ChangedElements(const WordVector& vector) {
  uint32_t changed = 0;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t word = vector.words[i];
    if constexpr (sizeof(Unit) == 1) {
      const uint32_t tops = (((word & 0x7f7f7f7f) + 0x7f7f7f7f) | word) & 0x80808080;
      changed |= ((tops >> 7 & 1) | (tops >> 14 & 2) | (tops >> 21 & 4) | (tops >> 28 & 8)) << (4 * i);
    } else if constexpr (sizeof(Unit) == 2) {
      changed |= ((word & 0xffff) != 0 ? 1U : 0U) << (2 * i) | ((word >> 16) != 0 ? 1U : 0U) << (2 * i + 1);
    } else {
      changed |= (word != 0 ? 1U : 0U) << (4 * i / sizeof(Unit));
    }
  }
  return changed;
}

// The same bits in an order that costs fewer steps: byte by byte of all words. Where one bit is set this tells which element.
template <typename Unit>
XORBIT_DEVICE uint32_t ChangedBits(const WordVector& vector) {
  if constexpr (sizeof(Unit) >= 4) {
    return ChangedElements<Unit>(vector);
  } else {
    constexpr uint32_t kTop = sizeof(Unit) == 1 ? 0x80808080 : 0x80008000;
    constexpr uint32_t kShift = 8 * sizeof(Unit) - 1;
    uint32_t bits = 0;
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t word = vector.words[i];
      bits |= ((((word & ~kTop) + ~kTop) | word) & kTop) >> (kShift - i);
    }
    return bits;
  }
}
template <typename Unit>
XORBIT_DEVICE uint32_t ElementOfBit(uint32_t bit) {
  if constexpr (sizeof(Unit) >= 4) return bit;
  constexpr uint32_t kBits = 8 * sizeof(Unit);
  return bit % kBits * (4 / static_cast<uint32_t>(sizeof(Unit))) + bit / kBits;
}

XORBIT_DEVICE WordVector LoadMask(const uint8_t* from) {
#ifdef __CUDACC__
  const uint4 words = *reinterpret_cast<const uint4*>(from);
  return {{words.x, words.y, words.z, words.w}};
#else
  return *reinterpret_cast<const WordVector*>(from);
#endif
}

// `byte_count` < 16 bytes, and zeros for the rest.
XORBIT_DEVICE_RARE WordVector LoadPartOfMask(const uint8_t* from, uint32_t byte_count) {
  WordVector vector{};
  for (uint32_t i = 0; i < byte_count; ++i) vector.words[i / 4] |= uint32_t{from[i]} << (8 * (i % 4));
  return vector;
}

// The vector at byte `at` of a mask; zero behind its end.
XORBIT_DEVICE WordVector MaskVectorAt(const uint8_t* mask, uint32_t at, uint32_t byte_count) {
  if (at >= byte_count) return {};
  return byte_count - at < kVectorBytes ? LoadPartOfMask(mask + at, byte_count - at) : LoadMask(mask + at);
}

// A portion of a tile is scanned until so many changes are queued; the last vectors may add kWarpLanes * kVectorBytes more.
inline constexpr uint32_t kMaskPortionChanges = 256;
inline constexpr uint32_t kMaskQueueLength = kMaskPortionChanges + kWarpLanes * kVectorBytes;
inline constexpr uint32_t kTileGroups = kMaskTileBytes / kGroupBytes;

// Fast memory of a warp.
struct MaskQueues {
  std::array<uint16_t, kTileGroups> groups;        // those of the tile that are marked
  std::array<uint16_t, kMaskQueueLength> changes;  // elements of the portion that change
};

// Finds the elements of a tile's mask that change. All lanes of a warp use it together. Marked groups are listed first, so that
// a warp has all its lanes on those, several groups at once, and no step for the others.
template <typename Unit>
class MaskScan {
  static constexpr uint32_t kGroupLanes = kGroupBytes / kVectorBytes;
  static constexpr uint32_t kRowGroups = kWarpLanes / kGroupLanes;
  static constexpr uint32_t kRowsAtOnce = 4;
  static constexpr uint32_t kLaneGroups = kTileGroups / kWarpLanes;  // that a lane lists
  static_assert(kLaneGroups == 64);

 public:
  // `mask`: of a tile, 16-byte aligned. `groups`: of the tile, or null if nobody has marked any.
  XORBIT_DEVICE MaskScan(const uint8_t* mask, uint32_t byte_count, const uint32_t* groups, MaskQueues* queues)
      : mask_(mask), byte_count_(byte_count), queues_(queues) {
    ListGroups(groups);
  }

  XORBIT_DEVICE bool is_done() const { return at_ >= group_count_; }

  // Fills the queue with the next portion's changes, ascending, and returns how many they are.
  XORBIT_DEVICE uint32_t NextPortion() {
    queued_ = 0;
    SyncWarp();  // the portion before has been read
    Rows next = RowsAt(at_);
    while (at_ < group_count_) {
      const Rows rows = next;
      next = RowsAt(at_ + kRowsAtOnce * kRowGroups);  // on their way while these are looked at
#ifdef __CUDACC__
#pragma unroll
#endif
      for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
        const uint32_t lanes = Ballot(!rows.vectors[i].is_zero());
        if (lanes != 0) Enqueue(lanes, rows.vectors[i], at_);
        at_ += kRowGroups;
        if (queued_ >= kMaskPortionChanges) break;
      }
      if (queued_ >= kMaskPortionChanges) break;
    }
    SyncWarp();
    return queued_;
  }

 private:
  // This lane's vectors of some rows of marked groups.
  struct Rows {
    WordVector vectors[kRowsAtOnce];
  };

  XORBIT_DEVICE void ListGroups(const uint32_t* groups) {
    const uint32_t first = Lane() * kLaneGroups;
    const uint32_t behind = (byte_count_ + kGroupBytes - 1) / kGroupBytes;
    uint64_t marks = 0;
    if (first < behind) marks = behind - first < kLaneGroups ? (uint64_t{1} << (behind - first)) - 1 : ~uint64_t{0};
    if (groups != nullptr && first < behind) {
      const uint32_t high = first + kLaneGroups / 2 < behind ? groups[2 * Lane() + 1] : 0;
      marks &= uint64_t{high} << 32 | groups[2 * Lane()];
    }
    const uint32_t until = InclusiveSum(CountBits(marks));
    SyncWarp();  // the tile before has been read
    for (uint32_t index = until - CountBits(marks); marks != 0; marks &= marks - 1) {
      queues_->groups[index++] = static_cast<uint16_t>(first + CountTrailingZeros(marks));
    }
    group_count_ = ShuffleFrom(until, kWarpLanes - 1);
    SyncWarp();
  }

  // Where this lane's vector of the row of groups [listed, listed + kRowGroups) of the list is; the mask's end if that has
  // none.
  XORBIT_DEVICE uint32_t PlaceIn(uint32_t listed) const {
    const uint32_t index = listed + Lane() / kGroupLanes;
    if (index >= group_count_) return byte_count_;
    return queues_->groups[index] * kGroupBytes + Lane() % kGroupLanes * kVectorBytes;
  }
  XORBIT_DEVICE Rows RowsAt(uint32_t listed) const {
    Rows rows;
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
      rows.vectors[i] = MaskVectorAt(mask_, PlaceIn(listed + i * kRowGroups), byte_count_);
    }
    return rows;
  }

  // Changes of each lane's vector of the row of groups that begins at `listed`; `lanes` are those that have some.
  XORBIT_DEVICE void Enqueue(uint32_t lanes, const WordVector& vector, uint32_t listed) {
    const uint32_t element = PlaceIn(listed) / static_cast<uint32_t>(sizeof(Unit));
    uint16_t* const queue = queues_->changes.data();
    const uint32_t bits = ChangedBits<Unit>(vector);
    if (!AnyLane((bits & (bits - 1)) != 0)) {  // one at most in each, mostly
      if (bits != 0) {
        queue[queued_ + CountBits(lanes & LanesBelow())] =
            static_cast<uint16_t>(element + ElementOfBit<Unit>(CountTrailingZeros(bits)));
      }
      queued_ += CountBits(lanes);
      return;
    }
    uint32_t changed = ChangedElements<Unit>(vector);
    const uint32_t count = CountBits(changed);
    const uint32_t until = InclusiveSum(count);
    uint32_t index = queued_ + until - count;
    for (; changed != 0; changed &= changed - 1) {
      queue[index++] = static_cast<uint16_t>(element + CountTrailingZeros(changed));
    }
    queued_ += ShuffleFrom(until, kWarpLanes - 1);
  }

  const uint8_t* mask_;
  uint32_t byte_count_;
  MaskQueues* queues_;
  uint32_t group_count_ = 0;  // that are listed
  uint32_t at_ = 0;           // of these
  uint32_t queued_ = 0;
};

// Hands the first `count` elements of a queue to a visitor.
template <typename Unit, typename Visitor>
XORBIT_DEVICE void VisitQueued(const uint8_t* mask, const uint16_t* queue, uint32_t count, Visitor* visitor) {
  for (uint32_t group = 0; group < count; group += kWarpLanes) {
    const uint32_t index = group + Lane();
    const bool active = index < count;
    const uint32_t offset = active ? queue[index] : 0;
    const uint32_t last = queue[(group + kWarpLanes < count ? group + kWarpLanes : count) - 1];
    const Unit bits = active ? reinterpret_cast<const Unit*>(mask)[offset] : Unit{0};
    visitor->Visit(active, index, offset, last, bits);
  }
}

}  // namespace xorbit::cuda
