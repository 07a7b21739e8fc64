// Lays out one tile as its bits and values (bitmap_form.h) while it is decoded.
//
// A warp gathers changes in a window of its own in fast memory, as a mask of the live memory that they lie in, and goes over
// that once the next change is behind it.
#pragma once

#include "backend/cuda/bitmap_form.h"
#include "backend/cuda/word_vector.h"

namespace xorbit::cuda {

inline constexpr uint32_t kWindowBytes = 4096;  // whole blocks, whatever the unit

// A visitor of tile_decode.h.
template <typename Unit>
class BitmapBuilder {
  using Part = BitmapPart<Unit>;
  static constexpr uint32_t kParts = kVectorBytes / sizeof(Part);
  static constexpr uint32_t kPairs = sizeof(Part);  // of a block

 public:
  // `to`: room for the form. `window`: kWindowBytes in memory of this warp, all zero, and left so.
  XORBIT_DEVICE BitmapBuilder(const BitmapForm& form, uint8_t* to, WordVector* window)
      : form_(form), to_(to), window_(window) {}

  XORBIT_DEVICE void Visit(bool active, uint32_t /*change_index*/, uint32_t offset, uint32_t /*last*/, Unit bits) {
    const uint32_t at = form_.head + offset * static_cast<uint32_t>(sizeof(Unit));
    bool waiting = active;
    for (;;) {
      if (waiting && at - begin_ < kWindowBytes) {
        *reinterpret_cast<Unit*>(reinterpret_cast<uint8_t*>(window_) + (at - begin_)) = bits;
        waiting = false;
      }
      if (!AnyLane(waiting) || begin_ >= form_.end) return;
      Flush();
    }
  }

  // Once after the last change. All lanes together.
  XORBIT_DEVICE void Finish() {
    while (begin_ < form_.end) Flush();
    reinterpret_cast<uint32_t*>(to_)[Lane()] = narrow_;
  }

 private:
  // Writes the window's blocks, clears it, and begins the next one.
  XORBIT_DEVICE void Flush() {
    SyncWarp();
    WordVector* vectors = window_ + Lane();
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (uint32_t at = 0; at < kWindowBytes; at += BlockBytesOf(sizeof(Part))) {
      const uint32_t block = (begin_ + at) / BlockBytesOf(sizeof(Part));
      if (block >= form_.block_count) break;
      WriteBlock(block, vectors);
      vectors += 2 * kPairs * kWarpLanes;
    }
    SyncWarp();
    begin_ += kWindowBytes;
  }

  // `vectors`: this lane's first one.
  XORBIT_DEVICE void WriteBlock(uint32_t block, WordVector* vectors) {
    uint32_t bitmap = 0;
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (uint32_t pair = 0; pair < kPairs; ++pair) {
      WordVector masks[2];
      uint32_t bits[2];
      bool is_wide = false;
      for (uint32_t row = 0; row < 2; ++row) {
        WordVector& vector = vectors[(2 * pair + row) * kWarpLanes];
        masks[row] = vector;
        vector = WordVector{};
        bits[row] = PartsThatChange(masks[row]);
        bitmap |= bits[row] << ((2 * pair + row) * kParts);
        is_wide |= HasWideParts(masks[row]);
      }
      const bool is_narrow = !AnyLane(is_wide);
      const uint32_t index = block * kPairs + pair;
      if (index / 32 == Lane()) narrow_ |= (is_narrow ? 1U : 0U) << (index % 32);
      const uint32_t counts = CountBits(bits[0]) | CountBits(bits[1]) << 16;
      const uint32_t inclusive = InclusiveSum(counts);
      const uint32_t total = ShuffleFrom(inclusive, kWarpLanes - 1);
      uint8_t* const values = to_ + form_.values + value_bytes_;
      const uint32_t before = inclusive - counts;
      if (is_narrow) {
        WriteParts<uint8_t>(masks[0], bits[0], before & 0xffff, values);
        WriteParts<uint8_t>(masks[1], bits[1], (total & 0xffff) + (before >> 16), values);
      } else {
        WriteParts<Part>(masks[0], bits[0], before & 0xffff, values);
        WriteParts<Part>(masks[1], bits[1], (total & 0xffff) + (before >> 16), values);
      }
      value_bytes_ += BitmapValueBytes<Part>((total & 0xffff) + (total >> 16), is_narrow);
    }
    reinterpret_cast<uint32_t*>(to_)[(1 + block) * kWarpLanes + Lane()] = bitmap;
  }

  XORBIT_DEVICE static uint32_t PartOf(const WordVector& vector, uint32_t k) {
    const uint32_t bits = k * 8 * static_cast<uint32_t>(sizeof(Part));
    return vector.words[bits / 32] >> (bits % 32) & static_cast<Part>(~Part{0});
  }
  // Of a longer element both halves count, though only one may change, so that a tile's changes tell how many values it has.
  XORBIT_DEVICE static uint32_t PartsThatChange(const WordVector& vector) {
    uint32_t bits = 0;
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t k = 0; k < kParts; ++k) {
      bool changes = PartOf(vector, k) != 0;
      if constexpr (sizeof(Unit) == 8) changes |= PartOf(vector, k ^ 1) != 0;
      bits |= changes ? 1U << k : 0;
    }
    return bits;
  }
  XORBIT_DEVICE static bool HasWideParts(const WordVector& vector) {
    constexpr uint32_t kHigh = sizeof(Part) == 1 ? 0 : sizeof(Part) == 2 ? 0xff00ff00 : 0xffffff00;
    return ((vector.words[0] | vector.words[1] | vector.words[2] | vector.words[3]) & kHigh) != 0;
  }
  template <typename Value>
  XORBIT_DEVICE static void WriteParts(const WordVector& vector, uint32_t bits, uint32_t at, uint8_t* to) {
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t k = 0; k < kParts; ++k) {
      if ((bits >> k & 1) != 0) reinterpret_cast<Value*>(to)[at++] = static_cast<Value>(PartOf(vector, k));
    }
  }

  BitmapForm form_;
  uint8_t* to_;
  WordVector* window_;
  uint32_t begin_ = 0;  // of the window
  uint32_t value_bytes_ = 0;
  uint32_t narrow_ = 0;  // this lane's word of the form
};

}  // namespace xorbit::cuda
