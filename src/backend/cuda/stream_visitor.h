// Apply for tiles in which changes are so close that atomics would cost more than reading and writing everything between them.
//
// A warp gathers changes in a window of its own in fast memory, as a mask of live memory from a 16-byte vector on, and then
// goes over the window once: vectors with changes are read, XORed and stored, in order. That is right only where nobody else
// writes to the same words: the tile must lie in one run that is contiguous on all sides, so every word between its first and
// last element is its own. The words at its ends are changed by atomics. The old values are summed a word at a time, with the
// state digest's weights, so the sum is the one that pre-flight found.
#pragma once

#include "backend/cuda/spread_visitors.h"

namespace xorbit::cuda {

inline constexpr uint32_t kVectorBytes = 16;
inline constexpr uint32_t kWindowBytes = 4096;
inline constexpr uint32_t kWindowWords = kWindowBytes / 4;

// Where a tile to be streamed lies; the same in all lanes.
struct StreamRange {
  uint64_t address;      // of its first element
  uint64_t tensor_byte;  // of its first element
  uint64_t tensor_key;
};

// Whether a tile may be streamed, and is dense enough that it should be.
template <typename Unit>
XORBIT_DEVICE bool FindStreamRange(const TileContext& tile, StreamRange* range) {
  const uint64_t element_count = uint64_t{tile.record.span} + 1;
  const uint64_t dense_bytes = (uint64_t{tile.record.count_minus_1} + 1) * tile.update->stream_bytes_per_change;
  if (element_count * sizeof(Unit) > dense_bytes) return false;
  const LiveBox& box = tile.segment->boxes[tile.start.box_index];
  if (box.address == 0 || box.period != 0 || tile.record.first + element_count > box.end) return false;
  const uint64_t first_byte = (tile.record.first - box.first) * sizeof(Unit);
  range->address = box.address + first_byte;
  range->tensor_byte = box.tensor_byte + first_byte;
  range->tensor_key = box.tensor_key;
  // Vectors lie in digest blocks.
  return (range->address - range->tensor_byte) % kVectorBytes == 0;
}

// All bits of every element that has a bit in `mask`; of 8-byte elements the caller passes both words, joined.
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

template <typename Unit, bool kCheck>
class StreamVisitor {
 public:
  // `window`: kWindowWords in memory of this warp, all zero, and left so.
  XORBIT_DEVICE StreamVisitor(const TileContext& tile, const StreamRange& range, uint32_t* window)
      : range_(range), window_(window), word_factors_(tile.word_factors) {
    const uint64_t end = range.address + (uint64_t{tile.record.span} + 1) * sizeof(Unit);
    owned_begin_ = (range.address + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
    owned_end_ = end / kVectorBytes * kVectorBytes;
    begin_ = range.address / kVectorBytes * kVectorBytes;
  }

  XORBIT_DEVICE void Visit(bool active, uint32_t /*change_index*/, uint32_t offset, uint32_t /*last*/, Unit bits) {
    const uint64_t address = range_.address + uint64_t{offset} * sizeof(Unit);
    bool waiting = active;
    for (;;) {
      if (waiting && address - begin_ < kWindowBytes) {
        Deposit(static_cast<uint32_t>(address - begin_), bits);
        waiting = false;
      }
      const uint32_t left = Ballot(waiting);
      if (left == 0) return;
      Flush();
      // The lowest lane that waits has the lowest address, and is in the next window.
      const uint32_t lane = CountBits((left & (~left + 1)) - 1);
      begin_ = (range_.address + uint64_t{ShuffleFrom(offset, lane)} * sizeof(Unit)) / kVectorBytes * kVectorBytes;
    }
  }

  // Once after the last change. All lanes together.
  XORBIT_DEVICE ApplyFindings Finish() {
    Flush();
    return {WarpSum(found_), false};
  }

 private:
  XORBIT_DEVICE void Deposit(uint32_t at, Unit bits) {
    if constexpr (sizeof(Unit) == 8) {
      window_[at / 4] = static_cast<uint32_t>(bits);
      window_[at / 4 + 1] = static_cast<uint32_t>(bits >> 32);
    } else if constexpr (sizeof(Unit) == 4) {
      window_[at / 4] = bits;
    } else {
      AtomicXor(window_ + at / 4, static_cast<uint32_t>(bits) << (at % 4 * 8));
    }
  }

  XORBIT_DEVICE void Flush() {
    constexpr uint32_t kAtOnce = 4;  // loads in flight
    SyncWarp();
    auto* masks = reinterpret_cast<WordVector*>(window_);
    for (uint32_t round = 0; round < kWindowBytes / kVectorBytes; round += kAtOnce * kWarpLanes) {
      WordVector mask[kAtOnce];
      WordVector old[kAtOnce];
#ifdef __CUDACC__
#pragma unroll
#endif
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        const uint32_t index = round + i * kWarpLanes + Lane();
        mask[i] = masks[index];
        if (!mask[i].is_zero() && IsOwned(AddressOf(index))) old[i] = LoadVector(AddressOf(index));
      }
#ifdef __CUDACC__
#pragma unroll
#endif
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        const uint32_t index = round + i * kWarpLanes + Lane();
        if (mask[i].is_zero()) continue;
        masks[index] = WordVector{};
        if (IsOwned(AddressOf(index))) {
          StoreXor(AddressOf(index), old[i], mask[i]);
        } else {
          XorWords(AddressOf(index), mask[i], &old[i]);
        }
        if constexpr (kCheck) Weigh(AddressOf(index), old[i], mask[i]);
      }
    }
    SyncWarp();
  }

  XORBIT_DEVICE uint64_t AddressOf(uint32_t index) const { return begin_ + uint64_t{index} * kVectorBytes; }
  XORBIT_DEVICE bool IsOwned(uint64_t address) const { return address >= owned_begin_ && address + kVectorBytes <= owned_end_; }

  XORBIT_DEVICE static WordVector LoadVector(uint64_t address) {
#ifdef __CUDACC__
    const uint4 words = __ldcg(reinterpret_cast<const uint4*>(address));
    return {{words.x, words.y, words.z, words.w}};
#else
    return *reinterpret_cast<const WordVector*>(address);
#endif
  }
  XORBIT_DEVICE static void StoreXor(uint64_t address, const WordVector& old, const WordVector& mask) {
    WordVector target;
    for (uint32_t k = 0; k < 4; ++k) target.words[k] = old.words[k] ^ mask.words[k];
    *reinterpret_cast<WordVector*>(address) = target;
  }
  // At the tile's ends, where words and vectors are shared. Words that do not change are left alone.
  XORBIT_DEVICE static void XorWords(uint64_t address, const WordVector& mask, WordVector* old) {
    for (uint32_t k = 0; k < 4; ++k) {
      old->words[k] = mask.words[k] == 0 ? 0 : AtomicXor(reinterpret_cast<uint32_t*>(address) + k, mask.words[k]);
    }
    if constexpr (sizeof(Unit) == 8) {
      // An 8-byte element may change in one of its words only; the other one counts too.
      for (uint32_t k = 0; k < 4; ++k) {
        if (mask.words[k] == 0 && mask.words[k ^ 1] != 0)
          old->words[k] = LoadLive(reinterpret_cast<const uint32_t*>(address) + k);
      }
    }
  }

  XORBIT_DEVICE void Weigh(uint64_t address, const WordVector& old, const WordVector& mask) {
    const uint64_t tensor_byte = range_.tensor_byte + (address - range_.address);  // modulo 2^64
    const uint64_t* factors = word_factors_ + tensor_byte / 4 % kDigestWordsPerBlock;
    uint64_t inner = 0;
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t k = 0; k < 4; ++k) {
      const uint32_t joined = sizeof(Unit) == 8 ? mask.words[k] | mask.words[k ^ 1] : mask.words[k];
      inner += factors[k] * (old.words[k] & TouchedBits<Unit>(joined));
    }
    found_ += BlockFactorsOf(range_.tensor_key, tensor_byte / kDigestBlockBytes).lane0 * inner;
  }

  StreamRange range_;
  uint32_t* window_;
  const uint64_t* word_factors_;
  uint64_t owned_begin_;
  uint64_t owned_end_;
  uint64_t begin_;  // of the window, in live memory
  uint64_t found_ = 0;
};

}  // namespace xorbit::cuda
