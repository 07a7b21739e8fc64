#include "codec/sparse_table.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/checked_math.h"

namespace xorbit {
namespace {

__extension__ using Wide = unsigned __int128;

// Whether symbol a has a stronger claim on one more unit of frequency than b: a larger h / (f + 1/2), the slope of the coding
// cost midway between f and f + 1.
bool GainsMore(uint64_t ha, uint64_t fa, uint64_t hb, uint64_t fb) { return Wide{ha} * (2 * fb + 1) > Wide{hb} * (2 * fa + 1); }

// Whether symbol a loses less than b by giving up one unit.
bool LosesLess(uint64_t ha, uint64_t fa, uint64_t hb, uint64_t fb) { return Wide{ha} * (2 * fb - 1) < Wide{hb} * (2 * fa - 1); }

// log2(value) * 2^16 rounded down, by squaring a 1.31 fixed-point mantissa: integers only.
uint64_t Log2Times65536(uint32_t value) {
  const uint32_t exponent = 31 - static_cast<uint32_t>(std::countl_zero(value));
  uint64_t mantissa = uint64_t{value} << (31 - exponent);
  uint64_t log = exponent;
  for (int bit = 0; bit < 16; ++bit) {
    mantissa = mantissa * mantissa >> 31;
    log <<= 1;
    if (mantissa >> 32 != 0) {
      mantissa >>= 1;
      log |= 1;
    }
  }
  return log;
}

}  // namespace

Frequencies NormalizeHistogram(const Histogram& histogram) {
  const Wide total = std::accumulate(histogram.begin(), histogram.end(), Wide{0});
  assert(total > 0);
  Frequencies frequencies{};
  uint32_t sum = 0;
  for (size_t s = 0; s < histogram.size(); ++s) {
    if (histogram[s] == 0) continue;
    frequencies[s] = static_cast<uint16_t>(std::max<Wide>(1, Wide{histogram[s]} * kFrequencySum / total));
    sum += frequencies[s];
  }
  for (; sum < kFrequencySum; ++sum) {
    size_t best = histogram.size();
    for (size_t s = 0; s < histogram.size(); ++s) {
      if (histogram[s] == 0) continue;
      if (best == histogram.size() || GainsMore(histogram[s], frequencies[s], histogram[best], frequencies[best])) best = s;
    }
    ++frequencies[best];
  }
  for (; sum > kFrequencySum; --sum) {
    size_t best = histogram.size();
    for (size_t s = 0; s < histogram.size(); ++s) {
      if (frequencies[s] <= 1) continue;
      if (best == histogram.size() || LosesLess(histogram[s], frequencies[s], histogram[best], frequencies[best])) best = s;
    }
    --frequencies[best];
  }
  return frequencies;
}

uint64_t CodedCost16(const Histogram& histogram, const Frequencies& frequencies) {
  uint64_t cost = 0;
  for (size_t s = 0; s < histogram.size(); ++s) {
    if (histogram[s] == 0) continue;
    cost += histogram[s] * ((uint64_t{kFrequencyBits} << 16) - Log2Times65536(frequencies[s]));
  }
  return cost;
}

void AppendFrequencies(Buffer& out, const Frequencies& frequencies, uint32_t symbol_count) {
  uint32_t last_present = 0;
  for (uint32_t s = 0; s < symbol_count;) {
    const bool present = frequencies[s] != 0;
    if (s == 0 && present) AppendVarint(out, 0);
    uint32_t end = s;
    while (end < symbol_count && (frequencies[end] != 0) == present) ++end;
    AppendVarint(out, end - s);
    if (present) last_present = end - 1;
    s = end;
  }
  for (uint32_t s = 0; s < last_present; ++s) {
    if (frequencies[s] != 0) AppendVarint(out, uint64_t{frequencies[s]} - 1);
  }
}

Result<Frequencies> ReadFrequencies(ByteReader& reader, uint32_t symbol_count) {
  Frequencies frequencies{};
  uint32_t last_present = symbol_count;
  bool present = false;
  for (uint32_t s = 0; s < symbol_count; present = !present) {
    XORBIT_ASSIGN_OR_RETURN(const uint64_t length, reader.ReadVarint("a run of table symbols"));
    const bool empty = length == 0 && (present || s != 0);  // only the very first run may be
    if (length > symbol_count - s || empty) return CorruptError("a table's symbol runs do not fit its alphabet");
    if (present) {
      std::fill_n(frequencies.begin() + s, length, uint16_t{1});
      last_present = s + static_cast<uint32_t>(length) - 1;
    }
    s += static_cast<uint32_t>(length);
  }
  if (last_present == symbol_count) return CorruptError("a table has no symbols");
  uint64_t left = kFrequencySum;
  for (uint32_t s = 0; s < last_present; ++s) {
    if (frequencies[s] == 0) continue;
    XORBIT_ASSIGN_OR_RETURN(const uint64_t less_one, reader.ReadVarint("a table frequency"));
    if (less_one + 1 >= left || less_one >= kFrequencySum) return CorruptError("a table's frequencies exceed 4096");
    frequencies[s] = static_cast<uint16_t>(less_one + 1);
    left -= less_one + 1;
  }
  frequencies[last_present] = static_cast<uint16_t>(left);
  return frequencies;
}

EncodeTable MakeEncodeTable(const Frequencies& frequencies) {
  EncodeTable table{};
  uint32_t cumulative = 0;
  for (size_t s = 0; s < frequencies.size(); ++s) {
    const uint32_t frequency = frequencies[s] == 0 ? kFrequencySum : frequencies[s];
    table.packed[s] = frequencies[s] == 0 ? kFrequencySum : frequency | cumulative << 16;
    table.inverse[s] = DivideRoundUp(uint64_t{1} << kInverseShift, frequency);
    cumulative += frequencies[s];
  }
  return table;
}

void FillDecodeTable(const Frequencies& frequencies, DecodeTable* table) {
  uint32_t slot = 0;
  for (uint32_t s = 0; s < frequencies.size(); ++s) {
    const uint32_t frequency = frequencies[s];
    for (uint32_t i = 0; i < frequency; ++i) (*table)[slot++] = s | (frequency - 1) << 8 | i << 20;
  }
  assert(slot == kFrequencySum);
}

}  // namespace xorbit
