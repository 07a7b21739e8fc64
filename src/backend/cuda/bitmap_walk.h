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
      : form_(form),
        from_(from),
        at_(Lane() * kVectorBytes),
        owned_begin_((form.head + kVectorBytes - 1) / kVectorBytes * kVectorBytes) {
    const uint32_t owned_end = form.end / kVectorBytes * kVectorBytes;
    owned_bytes_ = owned_end > owned_begin_ ? owned_end - owned_begin_ : 0;
  }

  // Once. All lanes together; sums over all lanes, in every lane, of which `after` is right only if nothing is written.
  XORBIT_DEVICE TileSums Run() {
    const auto* headers = reinterpret_cast<const uint32_t*>(from_);
    const auto* bitmaps = reinterpret_cast<const uint32_t*>(from_ + form_.bitmaps) + Lane();
    uint32_t next_header = LoadBody(headers);
    uint32_t next_bitmap = LoadBody(bitmaps);
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (uint32_t block = 0; block < form_.block_count; ++block) {
      const uint32_t header = next_header;
      const uint32_t bitmap = next_bitmap;
      const uint32_t ahead = block + 1 < form_.block_count ? block + 1 : block;
      next_header = LoadBody(headers + ahead);
      next_bitmap = LoadBody(bitmaps + ahead * kWarpLanes);
      WalkBlock(header, bitmap);
      at_ += BlockBytesOf(sizeof(Part));
    }
    return {before_.Sum(), after_.Sum()};
  }

 private:
  XORBIT_DEVICE void WalkBlock(uint32_t header, uint32_t bitmap) {
    uint32_t value_bytes = header >> 4;
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t pair = 0; pair < kPairs; ++pair) {
      constexpr uint32_t kAll = (uint32_t{1} << kParts) - 1;
      const uint32_t low = bitmap >> (2 * pair * kParts) & kAll;
      const uint32_t high = bitmap >> ((2 * pair + 1) * kParts) & kAll;
      const uint32_t at = at_ + 2 * pair * kRowBytes;
      WordVector olds[2];
      if (low != 0) olds[0] = LoadVector(form_.base + at);
      if (high != 0) olds[1] = LoadVector(form_.base + at + kRowBytes);
      const uint32_t counts = CountBits(low) | CountBits(high) << 16;
      const uint32_t inclusive = InclusiveSum(counts);
      const uint32_t total = ShuffleFrom(inclusive, kWarpLanes - 1);
      const uint32_t before = inclusive - counts;
      const uint32_t high_before = (total & 0xffff) + (before >> 16);
      const bool is_narrow = (header >> pair & 1) != 0;
      const uint8_t* const values = from_ + form_.values + value_bytes;
      if (is_narrow) {
        XorVector(at, olds[0], low, values, before & 0xffff);
        XorVector(at + kRowBytes, olds[1], high, values, high_before);
      } else {
        XorVector(at, olds[0], low, reinterpret_cast<const Part*>(values), before & 0xffff);
        XorVector(at + kRowBytes, olds[1], high, reinterpret_cast<const Part*>(values), high_before);
      }
      value_bytes += BitmapValueBytes<Part>((total & 0xffff) + (total >> 16), is_narrow);
    }
  }

  // The parts with a bit get the values from values[next] on.
  template <typename Value>
  XORBIT_DEVICE void XorVector(uint32_t at, const WordVector& old, uint32_t bits, const Value* values, uint32_t next) {
    if (bits == 0) return;
    if (at - owned_begin_ >= owned_bytes_) return XorParts(form_.base + at, bits, values + next);
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
    if constexpr (kWrites) StoreVector(form_.base + at, target);
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

  XORBIT_DEVICE static WordVector LoadVector(uint64_t address) {
#ifdef __CUDACC__
    const uint4 words = __ldcg(reinterpret_cast<const uint4*>(address));
    return {{words.x, words.y, words.z, words.w}};
#else
    return *reinterpret_cast<const WordVector*>(address);
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

  BitmapForm form_;
  const uint8_t* from_;
  uint32_t at_;           // of this lane's first vector in the block
  uint32_t owned_begin_;  // of the vectors that are the tile's alone
  uint32_t owned_bytes_;
  WordHash before_;
  WordHash after_;
};

}  // namespace xorbit::cuda
