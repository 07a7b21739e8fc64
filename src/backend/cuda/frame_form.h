// The two inner codecs of the mask codecs as a warp writes them: where clusters of non-zero bytes end, and each byte of what
// stands between two of them. The plain form, byte for byte the same, is codec/mask_inner_snappy.cc and
// codec/mask_inner_lz4.cc.
//
// Both write, from one cluster to the next: the zero that ends a literal, a *run* that copies the other zeros, and an *opening*
// that says how long the next literal is. Positions are signed, for a cluster that begins with the mask follows a byte at -1.
#pragma once

#include "backend/cuda/warp.h"

namespace xorbit::cuda {

// A literal [begin, end) and, after it, zeros to be copied. What is not copied at a mask's end belongs to the literal.
struct Cluster {
  int32_t begin;
  int32_t end;
  uint32_t run;  // zeros; 0: the mask ends with the literal
};

struct SnappyForm {
  static constexpr int32_t kMinCopyBytes = 8;

  // Whether a byte at `at` begins a cluster of its own, if the one before it is at `previous`.
  XORBIT_DEVICE static bool Begins(int32_t previous, int32_t at, int32_t /*mask_bytes*/) {
    return at - previous >= kMinCopyBytes + 2;
  }
  XORBIT_DEVICE static int32_t BeginOf(int32_t at, int32_t /*mask_bytes*/) { return at; }
  // The cluster that begins at `begin`, whose last byte is at `last`; the next one's first is at `next`, or the mask's end.
  XORBIT_DEVICE static Cluster ClusterOf(int32_t begin, int32_t last, int32_t next, int32_t mask_bytes) {
    const int32_t zeros = next - (last + 2);
    if (zeros < kMinCopyBytes) return {begin, mask_bytes, 0};
    return {begin, last + 2, static_cast<uint32_t>(zeros)};
  }

  XORBIT_DEVICE static uint32_t RunBytes(uint32_t zeros) { return (zeros + 63) / 64 * 3; }
  XORBIT_DEVICE static uint8_t RunByte(uint32_t zeros, uint32_t i) {
    if (i % 3 != 0) return static_cast<uint8_t>(i % 3 == 1 ? 1 : 0);
    const uint32_t left = zeros - i / 3 * 64;
    return static_cast<uint8_t>(((left < 64 ? left : 64) - 1) << 2 | 2);
  }
  XORBIT_DEVICE static uint32_t OpeningBytes(const Cluster& cluster) {
    const uint32_t last = LastOf(cluster);
    return last < 60 ? 1 : 1 + LengthBytes(last);
  }
  XORBIT_DEVICE static uint8_t OpeningByte(const Cluster& cluster, uint32_t i) {
    const uint32_t last = LastOf(cluster);
    if (i > 0) return static_cast<uint8_t>(last >> (8 * (i - 1)));
    return static_cast<uint8_t>(last < 60 ? last << 2 : (59 + LengthBytes(last)) << 2);
  }

  // Before the first opening: the mask's length.
  XORBIT_DEVICE static uint32_t HeadBytes(uint32_t mask_bytes) {
    uint32_t count = 1;
    for (; mask_bytes >= 0x80; mask_bytes >>= 7) ++count;
    return count;
  }
  XORBIT_DEVICE static uint8_t HeadByte(uint32_t mask_bytes, uint32_t i) {
    const uint32_t rest = mask_bytes >> (7 * i);
    return static_cast<uint8_t>(rest >= 0x80 ? rest | 0x80 : rest);
  }
  // After the last run: nothing.
  XORBIT_DEVICE static uint32_t FootBytes() { return 0; }
  XORBIT_DEVICE static uint8_t FootByte(uint32_t /*i*/) { return 0; }

 private:
  XORBIT_DEVICE static uint32_t LastOf(const Cluster& cluster) {
    return static_cast<uint32_t>(cluster.end - cluster.begin - 1);
  }
  XORBIT_DEVICE static uint32_t LengthBytes(uint32_t last) { return last < 1U << 8 ? 1 : last < 1U << 16 ? 2 : 3; }
};

struct Lz4Form {
  static constexpr int32_t kMinMatchBytes = 4;
  static constexpr int32_t kLastLiteralBytes = 5;
  static constexpr int32_t kLastMatchDistance = 12;

  // A literal that would end within 12 bytes of the mask's end holds everything to it.
  XORBIT_DEVICE static bool IsLast(int32_t last, int32_t mask_bytes) { return last + 2 + kLastMatchDistance > mask_bytes; }
  XORBIT_DEVICE static bool Begins(int32_t previous, int32_t at, int32_t mask_bytes) {
    return at - previous >= kMinMatchBytes + 2 && !IsLast(previous, mask_bytes);
  }
  // No match reaches into the last 5 bytes.
  XORBIT_DEVICE static int32_t BeginOf(int32_t at, int32_t mask_bytes) {
    return at < mask_bytes - kLastLiteralBytes ? at : mask_bytes - kLastLiteralBytes;
  }
  XORBIT_DEVICE static Cluster ClusterOf(int32_t begin, int32_t last, int32_t next, int32_t mask_bytes) {
    if (IsLast(last, mask_bytes)) return {begin, mask_bytes, 0};
    return {begin, last + 2, static_cast<uint32_t>(BeginOf(next, mask_bytes) - (last + 2))};
  }

  // The offset, and what of the match's length does not fit its nibble.
  XORBIT_DEVICE static uint32_t RunBytes(uint32_t zeros) { return 2 + TailBytes(zeros - kMinMatchBytes); }
  XORBIT_DEVICE static uint8_t RunByte(uint32_t zeros, uint32_t i) {
    return i < 2 ? static_cast<uint8_t>(1 - i) : TailByte(zeros - kMinMatchBytes, i - 2);
  }
  XORBIT_DEVICE static uint32_t OpeningBytes(const Cluster& cluster) { return 1 + TailBytes(LengthOf(cluster)); }
  XORBIT_DEVICE static uint8_t OpeningByte(const Cluster& cluster, uint32_t i) {
    if (i > 0) return TailByte(LengthOf(cluster), i - 1);
    const uint32_t match = cluster.run == 0 ? 0 : cluster.run - kMinMatchBytes;
    return static_cast<uint8_t>(NibbleOf(LengthOf(cluster)) << 4 | NibbleOf(match));
  }

  XORBIT_DEVICE static uint32_t HeadBytes(uint32_t /*mask_bytes*/) { return 0; }
  XORBIT_DEVICE static uint8_t HeadByte(uint32_t /*mask_bytes*/, uint32_t /*i*/) { return 0; }
  // After the last run: the literal with which a block has to end.
  XORBIT_DEVICE static uint32_t FootBytes() { return 1 + kLastLiteralBytes; }
  XORBIT_DEVICE static uint8_t FootByte(uint32_t i) { return i == 0 ? kLastLiteralBytes << 4 : 0; }

 private:
  static constexpr uint32_t kNibbleMax = 15;
  XORBIT_DEVICE static uint32_t LengthOf(const Cluster& cluster) { return static_cast<uint32_t>(cluster.end - cluster.begin); }
  XORBIT_DEVICE static uint32_t NibbleOf(uint32_t length) { return length < kNibbleMax ? length : kNibbleMax; }
  XORBIT_DEVICE static uint32_t TailBytes(uint32_t length) { return length < kNibbleMax ? 0 : (length - kNibbleMax) / 255 + 1; }
  XORBIT_DEVICE static uint8_t TailByte(uint32_t length, uint32_t i) {
    return static_cast<uint8_t>(i < (length - kNibbleMax) / 255 ? 255 : (length - kNibbleMax) % 255);
  }
};

}  // namespace xorbit::cuda
