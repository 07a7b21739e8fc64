// Frequency tables of 12 bits: from a histogram, to and from bytes, and in the two shapes that the symbol loops read.
//
// All arithmetic is on integers, so that the same histogram gives the same table on every machine.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "codec/sparse_format.h"

namespace xorbit {

using Histogram = std::array<uint64_t, kValueSymbols>;

// Frequencies of all symbols; absent symbols have 0, the others at least 1, the sum is kFrequencySum.
using Frequencies = std::array<uint16_t, kValueSymbols>;

// The table for a histogram that is not all zero: shares rounded down but never below 1, then one by one the symbol that gains
// most (or loses least) is moved until the sum is right. Symbols with equal claims: the lower one first.
Frequencies NormalizeHistogram(const Histogram& histogram);

// Bits, times 2^16 and rounded, that coding this histogram with this table takes.
uint64_t CodedCost16(const Histogram& histogram, const Frequencies& frequencies);

// Appends: lengths of alternating runs of absent and present symbols (absent first) as varints until symbol_count is covered,
// then frequency - 1 of each present symbol but the last as varints; the last frequency is what is left.
void AppendFrequencies(Buffer& out, const Frequencies& frequencies, uint32_t symbol_count);
// The inverse: kCorrupt unless the bytes are exactly what AppendFrequencies would write.
Result<Frequencies> ReadFrequencies(ByteReader& reader, uint32_t symbol_count);

// What an encoder needs of a symbol. Entries of absent symbols have frequency kFrequencySum: coding one is a no-op, which is
// how a tile's first change goes without a gap.
struct EncodeTable {
  std::array<uint32_t, kValueSymbols> packed;  // frequency | cumulative << 16
  // ceil(2^44 / frequency): x / frequency = x * inverse >> 44 for x < frequency << 20.
  std::array<uint64_t, kValueSymbols> inverse;
};
EncodeTable MakeEncodeTable(const Frequencies& frequencies);
inline constexpr uint32_t kInverseShift = 44;

// What a decoder needs of each of the 4096 slots: symbol | (frequency - 1) << 8 | (slot - cumulative) << 20.
using DecodeTable = std::array<uint32_t, kFrequencySum>;
void FillDecodeTable(const Frequencies& frequencies, DecodeTable* table);

}  // namespace xorbit
