// Goes over a tile's mask and hands its changes to a visitor of tiles (box_visitors.h, spread_visitors.h), 32 at a time.
//
// A mask is read by vectors, most of which are zero. Elements that change go into a queue, in order: a visit costs the same for
// one change as for 32, and without the queue most would be for one. Scanning and visiting take turns instead of being one
// loop: what a visitor keeps would take the registers in which the scan has its next vectors on their way.
#pragma once

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

// The first `byte_count` < 16 bytes of a vector, zeros for the rest.
XORBIT_DEVICE_RARE WordVector Trimmed(WordVector vector, uint32_t byte_count) {
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t kept = byte_count > 4 * i ? byte_count - 4 * i : 0;
    if (kept < 4) vector.words[i] &= (1U << (8 * kept)) - 1;
  }
  return vector;
}

// This lane's vectors of the next few of a mask; zero behind its end.
struct MaskVectors {
  static constexpr uint32_t kAtOnce = 4;
  static constexpr uint32_t kBytes = kAtOnce * kWarpLanes * kVectorBytes;
  static_assert(kGroupBytes == kWarpLanes * kVectorBytes);
  WordVector vectors[kAtOnce];

  // Of the rows of lanes' vectors, those in whose groups nothing is marked are zero too.
  XORBIT_DEVICE MaskVectors(const uint8_t* mask, uint32_t at, uint32_t byte_count, uint32_t marks) {
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const uint32_t mine = at + (i * kWarpLanes + Lane()) * kVectorBytes;
      vectors[i] = {};
      if ((marks >> i & 1) == 0) continue;
      if (mine < byte_count) vectors[i] = LoadMask(mask + mine);
      if (mine < byte_count && byte_count - mine < kVectorBytes) vectors[i] = Trimmed(vectors[i], byte_count - mine);
    }
  }
};

// A portion of a tile is scanned until so many changes are queued; the last vectors may add kWarpLanes * kVectorBytes more.
inline constexpr uint32_t kMaskPortionChanges = 512;
inline constexpr uint32_t kMaskQueueLength = kMaskPortionChanges + kWarpLanes * kVectorBytes;

// Finds the elements of a tile's mask that change. All lanes of a warp use it together.
template <typename Unit>
class MaskScan {
 public:
  // `mask`: of a tile, 16-byte aligned and readable in whole vectors. `queue`: kMaskQueueLength entries of fast memory, the
  // warp's own. `groups`: of the tile, or null if nobody has marked any.
  XORBIT_DEVICE MaskScan(const uint8_t* mask, uint32_t byte_count, const uint32_t* groups, uint16_t* queue)
      : mask_(mask), byte_count_(byte_count), queue_(queue) {
    marks_ = ~0U;
    if (groups != nullptr && Lane() * kGroupWordBytes < byte_count) marks_ = groups[Lane()];
  }

  XORBIT_DEVICE bool is_done() const { return at_ >= byte_count_; }

  // Fills the queue with the next portion's changes, ascending, and returns how many they are.
  XORBIT_DEVICE uint32_t NextPortion() {
    queued_ = 0;
    SyncWarp();  // the portion before has been read
    MaskVectors next(mask_, at_, byte_count_, MarksAt(at_));
    while (at_ < byte_count_) {
      const MaskVectors row = next;
      next = MaskVectors(mask_, at_ + MaskVectors::kBytes, byte_count_,
                         MarksAt(at_ + MaskVectors::kBytes));  // on its way while this one is looked at
#ifdef __CUDACC__
#pragma unroll
#endif
      for (uint32_t i = 0; i < MaskVectors::kAtOnce; ++i) {
        const uint32_t lanes = Ballot(!row.vectors[i].is_zero());
        if (lanes != 0) Enqueue(lanes, row.vectors[i], at_);
        at_ += kWarpLanes * kVectorBytes;
        if (queued_ >= kMaskPortionChanges) break;
      }
      if (queued_ >= kMaskPortionChanges) break;
    }
    SyncWarp();
    return queued_;
  }

 private:
  // Of the groups from byte `at` of the tile on.
  XORBIT_DEVICE uint32_t MarksAt(uint32_t at) const {
    const uint32_t group = at / kGroupBytes;
    const uint32_t low = ShuffleFrom(marks_, group / 32 % kWarpLanes);
    const uint32_t high = ShuffleFrom(marks_, (group / 32 + 1) % kWarpLanes);
    return FunnelShift(low, high, group % 32);
  }

  // Changes of each lane's vector of the row that begins at `at`; `lanes` are those that have some.
  XORBIT_DEVICE void Enqueue(uint32_t lanes, const WordVector& vector, uint32_t at) {
    const uint32_t element = (at + Lane() * kVectorBytes) / static_cast<uint32_t>(sizeof(Unit));
    const uint32_t bits = ChangedBits<Unit>(vector);
    if (!AnyLane((bits & (bits - 1)) != 0)) {  // one at most in each, mostly
      if (bits != 0) {
        queue_[queued_ + CountBits(lanes & LanesBelow())] =
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
      queue_[index++] = static_cast<uint16_t>(element + CountTrailingZeros(changed));
    }
    queued_ += ShuffleFrom(until, kWarpLanes - 1);
  }

  const uint8_t* mask_;
  uint32_t byte_count_;
  uint16_t* queue_;
  uint32_t marks_;  // this lane's word of them
  uint32_t at_ = 0;
  uint32_t queued_ = 0;
};

// Hands the first `count` elements of a queue to a visitor. clears: leaves zeros where they were.
template <typename Unit, typename Visitor>
XORBIT_DEVICE void VisitQueued(uint8_t* mask, bool clears, const uint16_t* queue, uint32_t count, Visitor* visitor) {
  for (uint32_t group = 0; group < count; group += kWarpLanes) {
    const uint32_t index = group + Lane();
    const bool active = index < count;
    const uint32_t offset = active ? queue[index] : 0;
    const uint32_t last = queue[(group + kWarpLanes < count ? group + kWarpLanes : count) - 1];
    auto* element = reinterpret_cast<Unit*>(mask) + offset;
    const Unit bits = active ? *element : Unit{0};
    visitor->Visit(active, index, offset, last, bits);
    if (clears && active) *element = 0;
  }
}

}  // namespace xorbit::cuda
