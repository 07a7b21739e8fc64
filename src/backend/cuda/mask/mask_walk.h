// Goes over a tile's mask and hands its changes to a visitor of tiles (box_visitors.h, spread_visitors.h), 32 at a time.
//
// A mask is read by vectors, most of which are zero. Elements that change go into a queue, in order, until there is one for
// every lane: a visit costs the same for one change as for 32, and without the queue most would be for one.
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
  WordVector vectors[kAtOnce];

  XORBIT_DEVICE MaskVectors(const uint8_t* mask, uint32_t at, uint32_t byte_count) {
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const uint32_t mine = at + (i * kWarpLanes + Lane()) * kVectorBytes;
      vectors[i] = {};
      if (mine < byte_count) vectors[i] = LoadMask(mask + mine);
      if (mine < byte_count && byte_count - mine < kVectorBytes) vectors[i] = Trimmed(vectors[i], byte_count - mine);
    }
  }
};

// Room for what one row of vectors may add to less than one visit.
inline constexpr uint32_t kMaskQueueLength = kWarpLanes + kWarpLanes * kVectorBytes;

// All lanes of a warp use it together.
template <typename Unit, typename Visitor>
class MaskWalk {
 public:
  // `mask`: of a tile, 16-byte aligned and readable in whole vectors. `queue`: kMaskQueueLength entries of fast memory, the
  // warp's own. clears: leaves zeros where changes were.
  XORBIT_DEVICE MaskWalk(uint8_t* mask, uint32_t byte_count, bool clears, uint16_t* queue, Visitor* visitor)
      : mask_(mask), byte_count_(byte_count), clears_(clears), queue_(queue), visitor_(visitor) {}

  // Returns the number of changes.
  XORBIT_DEVICE uint32_t Run() {
    for (uint32_t at = 0; at < byte_count_; at += MaskVectors::kBytes) {
      const MaskVectors row(mask_, at, byte_count_);
#ifdef __CUDACC__
#pragma unroll
#endif
      for (uint32_t i = 0; i < MaskVectors::kAtOnce; ++i) {
        if (!AnyLane(!row.vectors[i].is_zero())) continue;
        Enqueue(ChangedElements<Unit>(row.vectors[i]), at + i * kWarpLanes * kVectorBytes);
        while (queued_ >= kWarpLanes) Visit(kWarpLanes);
        Settle();
      }
    }
    if (queued_ > 0) Visit(queued_);
    return visited_;
  }

 private:
  // Changes of each lane's vector of the row that begins at `at`.
  XORBIT_DEVICE void Enqueue(uint32_t changed, uint32_t at) {
    const uint32_t count = CountBits(changed);
    const uint32_t until = InclusiveSum(count);
    uint32_t index = queued_ + until - count;
    const uint32_t element = (at + Lane() * kVectorBytes) / static_cast<uint32_t>(sizeof(Unit));
    for (; changed != 0; changed &= changed - 1) {
      queue_[index++] = static_cast<uint16_t>(element + CountTrailingZeros(changed));
    }
    queued_ += ShuffleFrom(until, kWarpLanes - 1);
    SyncWarp();
  }

  // The first `count` of the queue.
  XORBIT_DEVICE void Visit(uint32_t count) {
    const bool active = Lane() < count;
    const uint32_t offset = active ? queue_[head_ + Lane()] : 0;
    const uint32_t last = queue_[head_ + count - 1];
    auto* element = reinterpret_cast<Unit*>(mask_) + offset;
    const Unit bits = active ? *element : Unit{0};
    visitor_->Visit(active, visited_ + Lane(), offset, last, bits);
    if (clears_ && active) *element = 0;
    head_ += count;
    queued_ -= count;
    visited_ += count;
  }

  // What is left of the queue goes to its front.
  XORBIT_DEVICE void Settle() {
    if (head_ == 0) return;
    SyncWarp();
    const uint16_t mine = Lane() < queued_ ? queue_[head_ + Lane()] : uint16_t{0};
    SyncWarp();
    if (Lane() < queued_) queue_[Lane()] = mine;
    SyncWarp();
    head_ = 0;
  }

  uint8_t* mask_;
  uint32_t byte_count_;
  bool clears_;
  uint16_t* queue_;
  Visitor* visitor_;
  uint32_t head_ = 0;
  uint32_t queued_ = 0;
  uint32_t visited_ = 0;
};

}  // namespace xorbit::cuda
