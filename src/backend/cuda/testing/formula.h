// Weights and changes by formula, so that a benchmark's data is made on the device, its payload on the host from the same
// numbers, and every byte verified afterwards without a second copy.
//
// Bytes are numbered through all tensors. Sixteen of them are a cell; a cell's old bytes and its change are functions of its
// number.
#pragma once

#include <cstdint>

#include "change/state_digest.h"

#ifdef __CUDACC__
#define XORBIT_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define XORBIT_HOST_DEVICE inline
#endif

namespace xorbit::cuda::testing {

inline constexpr uint64_t kCellBytes = 16;

struct Cell {
  uint32_t words[4];
};

// Where bytes of the formula lie; 16-byte aligned, a multiple of a cell.
struct FormulaPiece {
  uint64_t address;
  uint64_t byte_count;
  uint64_t first_byte;  // of the formula
};

// Which bytes change.
struct ChangeFormula {
  uint64_t cell_threshold = 0;  // of 2^32: how likely a cell changes in one place; 0: elements change one by one
  uint64_t element_threshold = 0;
  uint32_t unit_bytes = 1;    // places are elements of this size, whose low byte changes
  bool random_bytes = false;  // any byte instead of a single bit
  bool old_is_zero = false;   // so that the state before is a file of holes
};

XORBIT_HOST_DEVICE Cell OldCell(const ChangeFormula& formula, uint64_t cell) {
  if (formula.old_is_zero) return {};
  const uint64_t a = SplitMix64(2 * cell ^ 0x6f6c642077656967);
  const uint64_t b = SplitMix64((2 * cell + 1) ^ 0x6f6c642077656967);
  return {{static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32), static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32)}};
}

// The byte that a change XORs in, from 16 random bits; never 0.
XORBIT_HOST_DEVICE uint32_t ChangeByte(const ChangeFormula& formula, uint32_t random) {
  if (!formula.random_bytes) return uint32_t{1} << (random & 7);
  return (random & 0xff) == 0 ? 1 : random & 0xff;
}

// Whether a cell changes at all, if cells do: the only question that most cells are asked.
XORBIT_HOST_DEVICE bool CellChanges(const ChangeFormula& formula, uint64_t hash) {
  return (hash & 0xffffffff) < formula.cell_threshold;
}
XORBIT_HOST_DEVICE uint64_t ChangeHash(uint64_t cell) { return SplitMix64(cell ^ 0x6368616e6765); }

XORBIT_HOST_DEVICE Cell ChangeOfCell(const ChangeFormula& formula, uint64_t cell) {
  Cell change{};
  const auto add = [&](uint32_t at, uint32_t byte) { change.words[at / 4] |= byte << (8 * (at % 4)); };
  const uint64_t hash = ChangeHash(cell);
  if (formula.cell_threshold != 0) {
    if (!CellChanges(formula, hash)) return change;
    const auto place = static_cast<uint32_t>(hash >> 32) % (static_cast<uint32_t>(kCellBytes) / formula.unit_bytes);
    add(place * formula.unit_bytes, ChangeByte(formula, static_cast<uint32_t>(hash >> 48)));
    return change;
  }
  if (formula.element_threshold == 0) return change;
  for (uint32_t at = 0; at < kCellBytes; at += formula.unit_bytes) {
    const uint64_t own = SplitMix64(hash + at);
    if ((own & 0xffffffff) < formula.element_threshold) add(at, ChangeByte(formula, static_cast<uint32_t>(own >> 48)));
  }
  return change;
}

}  // namespace xorbit::cuda::testing
