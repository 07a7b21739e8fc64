// A strip as lines of vectors, and how a warp loads a line: whole and aligned mostly, byte by byte at a strip's ends.
#pragma once

#include "backend/cuda/send_on_device.h"
#include "backend/cuda/warp.h"

namespace xorbit::cuda {

struct Vector {
  uint64_t low;
  uint64_t high;
};

XORBIT_DEVICE Vector LoadAligned(uint64_t address) {
#ifdef __CUDACC__
  const ulonglong2 loaded = __ldcs(reinterpret_cast<const ulonglong2*>(address));
  return {loaded.x, loaded.y};
#else
  return *reinterpret_cast<const Vector*>(address);
#endif
}

// Sixteen bytes from any address, zeros outside [begin, end).
XORBIT_DEVICE_RARE Vector LoadCarefully(uint64_t address, uint64_t begin, uint64_t end) {
  if (address % kVectorBytes == 0 && address >= begin && address + kVectorBytes <= end) return LoadAligned(address);
  uint64_t halves[2] = {0, 0};
  for (uint32_t i = 0; i < kVectorBytes; ++i) {
    const uint64_t at = address + i;
    if (at < begin || at >= end) continue;
    halves[i / 8] |= uint64_t{*reinterpret_cast<const uint8_t*>(at)} << (8 * (i % 8));
  }
  return {halves[0], halves[1]};
}

// This lane's part of a line: kVectorsAtOnce vectors, each next to the other lanes'.
struct LoadedLine {
  Vector olds[kVectorsAtOnce];
  Vector changes[kVectorsAtOnce];
};

struct StripView {
  uint64_t old_begin;  // of the first line, head included
  uint64_t new_begin;
  uint64_t head_bytes;
  uint64_t end_bytes;  // head included
  bool aligned;

  // Whether there is such a line: a short strip has fewer.
  XORBIT_DEVICE bool Has(uint64_t line_at) const { return line_at < end_bytes; }
  // Whether the line lies inside the strip, and aligned.
  XORBIT_DEVICE bool IsWhole(uint64_t line_at) const {
    return aligned && line_at >= head_bytes && line_at + kLineBytes <= end_bytes;
  }
};

XORBIT_DEVICE StripView ViewOf(const Strip& strip, uint32_t unit_bytes) {
  StripView view{};
  view.head_bytes = HeadBytesOf(strip.old_address, unit_bytes);
  view.end_bytes = view.head_bytes + strip.element_count * unit_bytes;
  view.old_begin = strip.old_address - view.head_bytes;
  view.new_begin = strip.new_address - view.head_bytes;
  view.aligned = view.old_begin % kVectorBytes == 0 && view.new_begin % kVectorBytes == 0;
  return view;
}

constexpr uint64_t LineAtOf(uint64_t line_index) { return line_index % kLinesPerStrip * kLineBytes; }

// A line that begins before its strip, ends after it, or is not aligned; zeros outside.
XORBIT_DEVICE void LoadRagged(const StripView& view, uint64_t line_at, LoadedLine* line) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t j = 0; j < kVectorsAtOnce; ++j) {
    const uint64_t at = line_at + (j * kWarpLanes + Lane()) * kVectorBytes;
    line->olds[j] = LoadCarefully(view.old_begin + at, view.old_begin + view.head_bytes, view.old_begin + view.end_bytes);
    const Vector other = LoadCarefully(view.new_begin + at, view.new_begin + view.head_bytes, view.new_begin + view.end_bytes);
    line->changes[j] = {line->olds[j].low ^ other.low, line->olds[j].high ^ other.high};
  }
}

// The element of the segment at which a line begins, modulo 2^64: a head's first one is before the strip.
XORBIT_DEVICE uint64_t FirstElementOf(const Strip& strip, const StripView& view, uint64_t line_at, uint32_t unit_bytes) {
  const auto ahead = static_cast<int64_t>(line_at - view.head_bytes) / static_cast<int64_t>(unit_bytes);
  return strip.first_element + static_cast<uint64_t>(ahead);
}

}  // namespace xorbit::cuda
