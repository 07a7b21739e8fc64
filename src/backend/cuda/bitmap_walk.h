// Goes over the live memory of one tile that was laid out (bitmap_form.h): reads, XORs and writes the vectors that change, in
// the order of memory, and sums what it meets.
//
// Plain reads and writes are right only where nobody else writes to the same vectors. So the tile lies in one row of one box,
// and the vectors at its ends, which it shares with its neighbours, go part by part.
//
// What it meets is checked by a hash of its own over the vectors that change, which costs less than the state digest of their
// elements and covers more.
#pragma once

#include "backend/cuda/bitmap_form.h"
#include "backend/cuda/live_access.h"
#include "backend/cuda/word_vector.h"

namespace xorbit::cuda {

// A lane's hash of the words that it meets, in their order: any one word that differs makes it differ.
class WordHash {
 public:
  XORBIT_DEVICE void Add(uint32_t word) { hash_ = (hash_ ^ word) * 0x9e3779b1; }
  // Over all lanes, in every lane.
  XORBIT_DEVICE uint64_t Sum() const { return WarpSum(hash_ * (SplitMix64(Lane()) | 1)); }

 private:
  uint32_t hash_ = 0;
};

// kWrites: XORs; else only tells what is there, and what will be.
template <typename Unit, bool kWrites>
class BitmapWalk {
  using Part = BitmapPart<Unit>;
  static constexpr uint32_t kParts = kVectorBytes / sizeof(Part);
  static constexpr uint32_t kPairs = sizeof(Part);

 public:
  XORBIT_DEVICE BitmapWalk(const BitmapForm& form, const uint8_t* from)
      : bitmaps_(reinterpret_cast<const uint32_t*>(from) + kWarpLanes + Lane()),
        values_(from + form.values),
        vector_(form.base + Lane() * kVectorBytes),
        last_(form.base + (form.end - 1) / kVectorBytes * kVectorBytes),
        blocks_left_(form.block_count),
        narrow_(LoadBody(reinterpret_cast<const uint32_t*>(from) + Lane())) {
    const uint32_t begin = (form.head + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
    const uint32_t end = form.end / kVectorBytes * kVectorBytes;
    owned_begin_ = static_cast<uint32_t>(form.base) + begin;
    owned_bytes_ = end > begin ? end - begin : 0;
  }

  // Once. All lanes together; sums over all lanes, in every lane, of which `after` is right only if nothing is written.
  XORBIT_DEVICE TileSums Run() {
    uint32_t next = LoadBody(bitmaps_);
    for (uint32_t pair = 0;; pair += kPairs) {
      const uint32_t bitmap = next;
      if (--blocks_left_ > 0) next = LoadBody(bitmaps_ += kWarpLanes);
      WalkBlock(pair, bitmap);
      if (blocks_left_ == 0) break;
      vector_ += BlockBytesOf(sizeof(Part));
    }
    return {before_.Sum(), after_.Sum()};
  }

 private:
  // `first_pair`: of the tile's.
  XORBIT_DEVICE void WalkBlock(uint32_t first_pair, uint32_t bitmap) {
    const uint32_t narrow = ShuffleFrom(narrow_, first_pair / 32) >> (first_pair % 32);
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t pair = 0; pair < kPairs; ++pair) {
      constexpr uint32_t kAll = (uint32_t{1} << kParts) - 1;
      const uint32_t low = bitmap >> (2 * pair * kParts) & kAll;
      const uint32_t high = bitmap >> ((2 * pair + 1) * kParts) & kAll;
      const uint64_t address = vector_ + 2 * pair * kRowBytes;
      const WordVector low_olds = LoadVector(low != 0, address);
      const WordVector high_olds = LoadVector(high != 0, address + kRowBytes);
      const uint32_t counts = CountBits(low) | CountBits(high) << 16;
      const uint32_t inclusive = InclusiveSum(counts);
      const uint32_t total = ShuffleFrom(inclusive, kWarpLanes - 1);
      const uint32_t before = inclusive - counts;
      const uint32_t high_before = (total & 0xffff) + (before >> 16);
      const bool is_narrow = (narrow >> pair & 1) != 0;
      if (is_narrow) {
        XorVector(address, low_olds, low, values_, before & 0xffff);
        XorVector(address + kRowBytes, high_olds, high, values_, high_before);
      } else {
        XorVector(address, low_olds, low, reinterpret_cast<const Part*>(values_), before & 0xffff);
        XorVector(address + kRowBytes, high_olds, high, reinterpret_cast<const Part*>(values_), high_before);
      }
      values_ += BitmapValueBytes<Part>((total & 0xffff) + (total >> 16), is_narrow);
    }
  }

  // The parts with a bit get the values from values[next] on.
  template <typename Value>
  XORBIT_DEVICE void XorVector(uint64_t address, const WordVector& old, uint32_t bits, const Value* values, uint32_t next) {
    if (bits == 0) return;
    if (static_cast<uint32_t>(address) - owned_begin_ >= owned_bytes_) return XorParts(address, bits, values + next);
    uint32_t parts[kParts];
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t k = 0; k < kParts; ++k) {
      parts[k] = 0;
      if ((bits >> k & 1) != 0) parts[k] = LoadBody(values + next++);
    }
    WordVector target;
    constexpr uint32_t kPerWord = 4 / sizeof(Part);
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t w = 0; w < 4; ++w) {
      uint32_t mask = parts[w * kPerWord];
      for (uint32_t i = 1; i < kPerWord; ++i) mask |= parts[w * kPerWord + i] << (8 * sizeof(Part) * i);
      target.words[w] = old.words[w] ^ mask;
      Meet(old.words[w], target.words[w]);
    }
    if constexpr (kWrites) StoreVector(address, target);
  }
  template <typename Value>
  XORBIT_DEVICE void XorParts(uint64_t address, uint32_t bits, const Value* value) {
    auto* const parts = reinterpret_cast<Part*>(address);
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (; bits != 0; bits &= bits - 1) {
      Part* const part = parts + CountTrailingZeros(bits);
      const Part old = LoadLive(part);
      const auto target = static_cast<Part>(old ^ LoadBody(value++));
      Meet(old, target);
      if constexpr (kWrites) *part = target;
    }
  }

  // Past the first-level cache; of a vector that changes, or else any value. On a device it is read in either case, and one
  // behind the tile in place of another: from a branch, the compiler would move what it has loaded to other registers, and so
  // wait for it, before it asks for the values.
  XORBIT_DEVICE WordVector LoadVector([[maybe_unused]] bool changes, uint64_t address) const {
#ifdef __CUDA_ARCH__
    const uint4 words = __ldcg(reinterpret_cast<const uint4*>(address < last_ ? address : last_));
    return {{words.x, words.y, words.z, words.w}};
#else
    return changes ? *reinterpret_cast<const WordVector*>(address) : WordVector{};
#endif
  }
  XORBIT_DEVICE static void StoreVector(uint64_t address, const WordVector& target) {
#ifdef __CUDACC__
    *reinterpret_cast<uint4*>(address) = make_uint4(target.words[0], target.words[1], target.words[2], target.words[3]);
#else
    *reinterpret_cast<WordVector*>(address) = target;
#endif
  }
  XORBIT_DEVICE void Meet(uint32_t old, uint32_t target) {
    before_.Add(old);
    if constexpr (!kWrites) after_.Add(target);
  }

  const uint32_t* bitmaps_;  // this lane's of the next block
  const uint8_t* values_;    // of the next pair
  uint64_t vector_;          // this lane's first of the block
  uint64_t last_;            // of the tile
  uint32_t blocks_left_;
  uint32_t narrow_;  // this lane's word of the form
  // Of the vectors that are the tile's alone, modulo 2^32.
  uint32_t owned_begin_;
  uint32_t owned_bytes_;
  WordHash before_;
  WordHash after_;
};

}  // namespace xorbit::cuda
