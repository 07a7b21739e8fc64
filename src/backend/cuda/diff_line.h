// One warp finds the changes of one line: loads it from old and new, counts, reserves a place, stores.
//
// A line of 4 KiB mostly has a change or two, so the common work is loading and comparing; what comes after is done only by
// lines with changes, and the part for each change only for loads that have some.
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

// Four bits: which bytes of a word are not zero.
XORBIT_DEVICE uint32_t ChangedBytes(uint32_t word) {
  word |= word >> 4;
  word |= word >> 2;
  word |= word >> 1;
  return (word & 0x01010101) * 0x01020408 >> 24 & 0xf;
}

// Bit e: whether element e of the vector is not zero.
template <typename Unit>
XORBIT_DEVICE uint32_t ChangedElements(const Vector& change) {
  const uint64_t halves[2] = {change.low, change.high};
  uint32_t mask = 0;
  for (uint32_t h = 0; h < 2; ++h) {
    const auto low = static_cast<uint32_t>(halves[h]);
    const auto high = static_cast<uint32_t>(halves[h] >> 32);
    if constexpr (sizeof(Unit) == 1) {
      mask |= (ChangedBytes(low) | ChangedBytes(high) << 4) << (8 * h);
    } else if constexpr (sizeof(Unit) == 2) {
      mask |= ((low & 0xffff) != 0 ? 1U : 0U) << (4 * h);
      mask |= (low >> 16 != 0 ? 2U : 0U) << (4 * h);
      mask |= ((high & 0xffff) != 0 ? 4U : 0U) << (4 * h);
      mask |= (high >> 16 != 0 ? 8U : 0U) << (4 * h);
    } else if constexpr (sizeof(Unit) == 4) {
      mask |= ((low != 0 ? 1U : 0U) | (high != 0 ? 2U : 0U)) << (2 * h);
    } else {
      mask |= (halves[h] != 0 ? 1U : 0U) << h;
    }
  }
  return mask;
}

template <typename Unit>
XORBIT_DEVICE Unit ElementOf(const Vector& vector, uint32_t element) {
  const uint32_t byte = element * static_cast<uint32_t>(sizeof(Unit));
  return static_cast<Unit>((byte < 8 ? vector.low : vector.high) >> (8 * (byte % 8)));
}

// Reserves places for a warp, in the unordered store: many small requests from one piece, large ones each on its own.
class StoreCursor {
 public:
  // All lanes together, with the same count above 0.
  XORBIT_DEVICE uint64_t Reserve(const SendOnDevice& send, uint32_t count) {
    constexpr uint32_t kPieceChanges = 512;
    constexpr uint32_t kSmall = 64;
    if (count > kSmall) return Take(send, count);
    if (count > left_) {
      next_ = Take(send, kPieceChanges);
      left_ = kPieceChanges;
    }
    const uint64_t start = next_;
    next_ += count;
    left_ -= count;
    return start;
  }

 private:
  XORBIT_DEVICE static uint64_t Take(const SendOnDevice& send, uint32_t count) {
    uint64_t start = 0;
    if (Lane() == 0) start = FetchAdd(&send.counters->stored_count, count);
    return ShuffleFrom(start, 0);
  }

  uint64_t next_ = 0;
  uint32_t left_ = 0;
};

// A line in registers.
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
};

XORBIT_DEVICE void LoadLine(const StripView& view, uint64_t line_at, LoadedLine* line) {
  const uint64_t lane_at = line_at + Lane() * kVectorBytes;
  if (view.aligned && line_at >= view.head_bytes && line_at + kLineBytes <= view.end_bytes) {
    Vector news[kVectorsAtOnce];
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t j = 0; j < kVectorsAtOnce; ++j) {
      line->olds[j] = LoadAligned(view.old_begin + lane_at + j * 32 * kVectorBytes);
      news[j] = LoadAligned(view.new_begin + lane_at + j * 32 * kVectorBytes);
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t j = 0; j < kVectorsAtOnce; ++j) {
      line->changes[j] = {line->olds[j].low ^ news[j].low, line->olds[j].high ^ news[j].high};
    }
    return;
  }
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t j = 0; j < kVectorsAtOnce; ++j) {
    const uint64_t at = lane_at + j * 32 * kVectorBytes;
    line->olds[j] = LoadCarefully(view.old_begin + at, view.old_begin + view.head_bytes, view.old_begin + view.end_bytes);
    const Vector other = LoadCarefully(view.new_begin + at, view.new_begin + view.head_bytes, view.new_begin + view.end_bytes);
    line->changes[j] = {line->olds[j].low ^ other.low, line->olds[j].high ^ other.high};
  }
}

// Stores a line's changes in order, `first_position` being the element of the segment at which this lane's first vector begins,
// modulo 2^32. Returns the line's entry.
template <typename Unit>
XORBIT_DEVICE uint64_t StoreLine(const SendOnDevice& send, const LoadedLine& line, uint32_t first_position,
                                 StoreCursor* cursor) {
  constexpr uint32_t kVectorElements = kVectorBytes / sizeof(Unit);
  uint32_t masks[kVectorsAtOnce];
  bool any = false;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t j = 0; j < kVectorsAtOnce; ++j) {
    masks[j] = (line.changes[j].low | line.changes[j].high) != 0 ? 1 : 0;
    any = any || masks[j] != 0;
  }
  if (Ballot(any) == 0) return 0;
  // Counts of two loads in one word: at most 512 each.
  uint32_t counts[kVectorsAtOnce / 2] = {0, 0};
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t j = 0; j < kVectorsAtOnce; ++j) {
    if (masks[j] != 0) {
      masks[j] = ChangedElements<Unit>(line.changes[j]);
      counts[j / 2] += CountBits(masks[j]) << (16 * (j % 2));
    }
  }
  uint32_t before[kVectorsAtOnce];  // of this lane's vector in its load
  uint32_t totals[kVectorsAtOnce];
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t pair = 0; pair < kVectorsAtOnce / 2; ++pair) {
    const uint32_t sum = InclusiveSum(counts[pair]);
    const uint32_t total = ShuffleFrom(sum, kWarpLanes - 1);
    before[2 * pair] = (sum - counts[pair]) & 0xffff;
    before[2 * pair + 1] = (sum - counts[pair]) >> 16;
    totals[2 * pair] = total & 0xffff;
    totals[2 * pair + 1] = total >> 16;
  }
  const uint32_t count = totals[0] + totals[1] + totals[2] + totals[3];
  const uint64_t start = cursor->Reserve(send, count);
  if (start + count > send.stored_capacity) return PackLine(0, count);  // the host will see that there was no room
  uint64_t load_start = start;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t j = 0; j < kVectorsAtOnce; ++j) {
    uint64_t at = load_start + before[j];
    for (uint32_t mask = masks[j]; mask != 0; mask &= mask - 1, ++at) {
      const uint32_t element = CountBits((mask & (0 - mask)) - 1);
      reinterpret_cast<Change<Unit>*>(send.stored)[at] = {first_position + j * 32 * kVectorElements + element,
                                                          ElementOf<Unit>(line.olds[j], element),
                                                          ElementOf<Unit>(line.changes[j], element)};
    }
    load_start += totals[j];
  }
  return PackLine(start, count);
}

// The element at which this lane's first vector of a line begins, modulo 2^32; a head's vectors begin before the strip.
template <typename Unit>
XORBIT_DEVICE uint32_t FirstPosition(const Strip& strip, const StripView& view, uint64_t line_at) {
  const auto lane_at = static_cast<int64_t>(line_at + Lane() * kVectorBytes - view.head_bytes);
  return static_cast<uint32_t>(strip.first_element) + static_cast<uint32_t>(lane_at / static_cast<int64_t>(sizeof(Unit)));
}

XORBIT_DEVICE StripView ViewOf(const Strip& strip, uint32_t unit_bytes) {
  StripView view{};
  view.head_bytes = HeadBytesOf(strip.old_address, unit_bytes);
  view.end_bytes = view.head_bytes + strip.element_count * unit_bytes;
  view.old_begin = strip.old_address - view.head_bytes;
  view.new_begin = strip.new_address - view.head_bytes;
  view.aligned = view.old_begin % kVectorBytes == 0 && view.new_begin % kVectorBytes == 0;
  return view;
}

// One line of a strip: its entry, wherever its changes went.
template <typename Unit>
XORBIT_DEVICE void DiffLine(const SendOnDevice& send, uint64_t line_index, StoreCursor* cursor) {
  const Strip strip = send.strips[line_index / kLinesPerStrip];
  const StripView view = ViewOf(strip, sizeof(Unit));
  const uint64_t line_at = line_index % kLinesPerStrip * kLineBytes;
  uint64_t entry = 0;
  if (line_at < view.end_bytes) {
    LoadedLine line;
    LoadLine(view, line_at, &line);
    entry = StoreLine<Unit>(send, line, FirstPosition<Unit>(strip, view, line_at), cursor);
  }
  if (Lane() == 0) send.lines[line_index] = entry;
}

// Counts the changes of a group of strips, and of the windows that they lie in, from what their lines left.
XORBIT_DEVICE void SumGroup(const SendOnDevice& send, uint64_t group) {
  constexpr uint32_t kStripsAtOnce = kWarpLanes / kLinesPerStrip;
  uint64_t sum = 0;
  for (uint32_t batch = 0; batch < kStripsPerGroup / kStripsAtOnce; ++batch) {
    const uint64_t strip = group * kStripsPerGroup + batch * kStripsAtOnce + Lane() / kLinesPerStrip;
    const bool exists = strip < send.strip_count;
    uint64_t count = exists ? CountOfLine(send.lines[strip * kLinesPerStrip + Lane() % kLinesPerStrip]) : 0;
    sum += count;
    for (uint32_t mask = kLinesPerStrip / 2; mask > 0; mask /= 2) count += ShuffleXor(count, mask);
    if (Lane() % kLinesPerStrip != 0 || count == 0) continue;
    AtomicAdd(&send.window_counts[send.strips[strip].first_element / kWindowElements], static_cast<uint32_t>(count));
  }
  sum = WarpSum(sum);
  if (Lane() == 0) send.group_starts[group] = sum;
}

}  // namespace xorbit::cuda
