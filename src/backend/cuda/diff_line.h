// One warp finds the changes of one line that it has loaded: compares, counts, reserves places, stores.
//
// A line of 4 KiB mostly has a change or two, so the common work is loading and comparing; what comes after is done only by
// lines with changes, and the part for each change only for loads that have some.
#pragma once

#include "backend/cuda/base_sums.h"
#include "backend/cuda/change_store.h"

namespace xorbit::cuda {

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

// Stores a line's changes in order, `first_position` being the element of the segment at which this lane's first vector begins,
// modulo 2^32. Returns the line's entry.
template <typename Unit>
XORBIT_DEVICE uint64_t StoreLine(const SendOnDevice& send, const LoadedLine& line, uint32_t first_position,
                                 ChangeStore<Unit>* store) {
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
  const uint64_t start = store->Reserve(send, count);
  if (start + count > send.stored_capacity) return PackLine(0, count);  // the host will see that there was no room
  uint64_t load_start = start;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t j = 0; j < kVectorsAtOnce; ++j) {
    uint64_t at = load_start + before[j];
    for (uint32_t mask = masks[j]; mask != 0; mask &= mask - 1, ++at) {
      const uint32_t element = CountBits((mask & (0 - mask)) - 1);
      StoreChange(send.stored, at,
                  Pack<Unit>({first_position + j * 32 * kVectorElements + element, ElementOf<Unit>(line.olds[j], element),
                              ElementOf<Unit>(line.changes[j], element)}));
    }
    load_start += totals[j];
  }
  return PackLine(start, count);
}

// A line of a strip: notes where its changes went, and counts its old bytes for the base digest. `line` is not looked at if the
// strip has no such line. All lanes together.
template <typename Unit, typename Sums>
XORBIT_DEVICE void DiffLine(const SendOnDevice& send, const Strip& strip, const StripView& view, const TensorSpan& span,
                            uint64_t line_index, const LoadedLine& line, ChangeStore<Unit>* store, Sums* base) {
  uint64_t entry = 0;
  const uint64_t line_at = LineAtOf(line_index);
  if (view.Has(line_at)) {
    const uint64_t element = FirstElementOf(strip, view, line_at, sizeof(Unit));
    if constexpr (Sums::kWanted) {
      // A head may begin before its tensor: blocks before the first count down, and their bytes are zeros.
      const auto tensor_byte = static_cast<int64_t>(span.tensor_byte + (element - span.first) * sizeof(Unit));
      base->Add(line, span.tensor_key, static_cast<uint64_t>(tensor_byte / int64_t{kDigestBlockBytes}));
    }
    const uint32_t lane_elements = Lane() * (kVectorBytes / static_cast<uint32_t>(sizeof(Unit)));
    entry = StoreLine<Unit>(send, line, static_cast<uint32_t>(element) + lane_elements, store);
  }
  if (Lane() == 0) send.lines[line_index] = entry;
}

}  // namespace xorbit::cuda
