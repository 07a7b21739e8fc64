// Apply for tiles in which changes are so close that reading and writing everything between them costs less than a transaction
// for each.
//
// A warp gathers changes in a window of its own in fast memory, as a mask of live memory from a 16-byte vector on, and then
// goes over the window once: vectors with changes are read, XORed and stored, in order. That is right only where nobody else
// writes to the same words: the tile must lie in one row of one box, so every vector between its first and last element is its
// own. The words at its ends are changed by atomics.
//
// What it meets is checked by a hash of its own over the vectors that change, which costs less than the state digest of their
// elements and covers more: after pre-flight, one more pass leaves what apply will have to find (LaunchStreamSums).
#pragma once

#include "backend/cuda/spread_visitors.h"

namespace xorbit::cuda {

inline constexpr uint32_t kVectorBytes = 16;
inline constexpr uint32_t kWindowBytes = 4096;

// Where a tile to be streamed begins in live memory; 0: it is not to be streamed. The same in all lanes.
template <typename Unit>
XORBIT_DEVICE uint64_t StreamAddressOf(const TileContext& tile) {
  if (tile.start.box_index == kNoBox) return 0;
  const uint64_t element_count = uint64_t{tile.record.span} + 1;
  const uint64_t dense_bytes = (uint64_t{tile.record.count_minus_1} + 1) * tile.update->stream_bytes_per_change;
  if (element_count * sizeof(Unit) > dense_bytes) return 0;
  const LiveBox& box = tile.segment->boxes[tile.start.box_index];
  const bool is_one_row = box.address != 0 && box.period == 0 && tile.record.first + element_count <= box.end;
  return is_one_row ? box.address + (tile.record.first - box.first) * sizeof(Unit) : 0;
}

// All bits of every element that has a bit in `mask`, or of the half of an 8-byte element.
template <typename Unit>
XORBIT_DEVICE uint32_t TouchedBits(uint32_t mask) {
  if constexpr (sizeof(Unit) >= 4) {
    return mask != 0 ? 0xffffffff : 0;
  } else {
    constexpr uint32_t kTop = sizeof(Unit) == 1 ? 0x80808080 : 0x80008000;
    const uint32_t top = (((mask & ~kTop) + ~kTop) | mask) & kTop;  // the top bit of each touched element
    constexpr uint32_t kBits = 8 * sizeof(Unit);
    return (top >> (kBits - 1)) * ((uint32_t{1} << kBits) - 1);
  }
}

struct alignas(kVectorBytes) WordVector {
  uint32_t words[4];

  XORBIT_DEVICE bool is_zero() const { return (words[0] | words[1] | words[2] | words[3]) == 0; }
};

// A lane's hash of the words that it meets, in their order: any one word that differs makes it differ.
class StreamHash {
 public:
  XORBIT_DEVICE void Add(uint32_t word) { hash_ = (hash_ ^ word) * 0x9e3779b1; }
  // Over all lanes, in every lane.
  XORBIT_DEVICE uint64_t Sum() const { return WarpSum(hash_ * (SplitMix64(Lane()) | 1)); }

 private:
  uint32_t hash_ = 0;
};

// kWrites: XORs; else only tells what is there, and what will be.
template <typename Unit, bool kWrites>
class StreamVisitor {
 public:
  // `window`: kWindowBytes in memory of this warp, all zero, and left so. `address`: StreamAddressOf.
  XORBIT_DEVICE StreamVisitor(const TileContext& tile, uint64_t address, WordVector* window)
      : window_(window), base_(address / kVectorBytes * kVectorBytes), head_(static_cast<uint32_t>(address - base_)) {
    const uint32_t end = head_ + (tile.record.span + 1) * static_cast<uint32_t>(sizeof(Unit));
    owned_begin_ = head_ == 0 ? 0 : kVectorBytes;
    owned_end_ = end / kVectorBytes * kVectorBytes;
  }

  XORBIT_DEVICE void Visit(bool active, uint32_t /*change_index*/, uint32_t offset, uint32_t /*last*/, Unit bits) {
    const uint32_t at = head_ + offset * static_cast<uint32_t>(sizeof(Unit));
    bool waiting = active;
    for (;;) {
      if (waiting && at - begin_ < kWindowBytes) {
        *reinterpret_cast<Unit*>(reinterpret_cast<uint8_t*>(window_) + (at - begin_)) = bits;
        waiting = false;
      }
      const uint32_t left = Ballot(waiting);
      if (left == 0) return;
      Flush();
      // The lowest lane that waits has the lowest address, and is in the next window.
      begin_ = ShuffleFrom(at, CountBits((left & (~left + 1)) - 1)) / kVectorBytes * kVectorBytes;
    }
  }

  // Once after the last change. All lanes together.
  XORBIT_DEVICE TileSums Finish() {
    Flush();
    return {before_.Sum(), after_.Sum()};
  }

 private:
  XORBIT_DEVICE void Flush() {
    constexpr uint32_t kAtOnce = 2;  // loads in flight
    SyncWarp();
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (uint32_t round = 0; round < kWindowBytes / kVectorBytes; round += kAtOnce * kWarpLanes) {
      WordVector mask[kAtOnce];
      WordVector old[kAtOnce];
#ifdef __CUDACC__
#pragma unroll
#endif
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        const uint32_t index = round + i * kWarpLanes + Lane();
        mask[i] = window_[index];
        if (!mask[i].is_zero() && IsOwned(index)) old[i] = LoadVector(AddressOf(index));
      }
#ifdef __CUDACC__
#pragma unroll
#endif
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        const uint32_t index = round + i * kWarpLanes + Lane();
        if (mask[i].is_zero()) continue;
        window_[index] = WordVector{};
        if (IsOwned(index)) {
          XorVector(AddressOf(index), old[i], mask[i]);
        } else {
          XorWords(AddressOf(index), mask[i]);
        }
      }
    }
    SyncWarp();
  }

  XORBIT_DEVICE uint64_t AddressOf(uint32_t index) const { return base_ + begin_ + index * kVectorBytes; }
  XORBIT_DEVICE bool IsOwned(uint32_t index) const {
    const uint32_t at = begin_ + index * kVectorBytes;
    return at >= owned_begin_ && at < owned_end_;
  }

  XORBIT_DEVICE static WordVector LoadVector(uint64_t address) {
#ifdef __CUDACC__
    const uint4 words = __ldcg(reinterpret_cast<const uint4*>(address));
    return {{words.x, words.y, words.z, words.w}};
#else
    return *reinterpret_cast<const WordVector*>(address);
#endif
  }
  XORBIT_DEVICE void XorVector(uint64_t address, const WordVector& old, const WordVector& mask) {
    WordVector target;
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t k = 0; k < 4; ++k) {
      target.words[k] = old.words[k] ^ mask.words[k];
      Meet(old.words[k], target.words[k]);
    }
    if constexpr (kWrites) *reinterpret_cast<WordVector*>(address) = target;
  }
  // At the tile's ends, where words and vectors are shared: only what changes is looked at.
  XORBIT_DEVICE void XorWords(uint64_t address, const WordVector& mask) {
    auto* words = reinterpret_cast<uint32_t*>(address);
    for (uint32_t k = 0; k < 4; ++k) {
      const uint32_t bits = mask.words[k];
      if (bits == 0) continue;
      const uint32_t old = kWrites ? AtomicXor(words + k, bits) : LoadLive(words + k);
      Meet(old & TouchedBits<Unit>(bits), (old ^ bits) & TouchedBits<Unit>(bits));
    }
  }
  XORBIT_DEVICE void Meet(uint32_t old, uint32_t target) {
    before_.Add(old);
    if constexpr (!kWrites) after_.Add(target);
  }

  WordVector* window_;
  uint64_t base_;  // of the vector in which the tile begins; positions count bytes from there
  uint32_t head_;
  uint32_t owned_begin_;
  uint32_t owned_end_;
  uint32_t begin_ = 0;  // of the window
  StreamHash before_;
  StreamHash after_;
};

}  // namespace xorbit::cuda
