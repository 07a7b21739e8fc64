// Which vector instructions this process may use, named, listed and forcible, so that every fast path can be tested against the
// plain one on the same machine.
//
// Code with several versions of a kernel keeps each in a file of its own, whose functions carry that level's target attribute,
// and picks by ActiveCpuLevel(). Results never depend on the level. It stands on floor 0 because codecs (floor 2) dispatch as
// well as the CPU backend (floor 4).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace xorbit {

enum class CpuLevel : uint8_t {
  kPortable,  // plain C++, any machine
  kAvx2,      // x86-64 with AVX2, BMI1, BMI2, POPCNT, LZCNT (Haswell, Zen)
  kAvx512,    // kAvx2 with AVX-512 F, BW, CD, DQ, VL, VBMI, VBMI2 (byte compress) and IFMA (52-bit sums): Ice Lake, Zen 4
  kNeon,      // AArch64 Advanced SIMD
};

// "portable", "avx2", "avx512", "neon".
std::string_view NameOf(CpuLevel level);
std::optional<CpuLevel> ParseCpuLevel(std::string_view name);

// Levels that this machine and operating system can run, slowest first; never empty.
const std::vector<CpuLevel>& AvailableCpuLevels();
inline CpuLevel BestCpuLevel() { return AvailableCpuLevels().back(); }

// The level that dispatch uses now: the forced one, else the best. Any thread.
CpuLevel ActiveCpuLevel();
// Forces a level for the whole process (tests, benchmarks, a user who chases a fault), or with nullopt goes back to the best.
// kUnsupported, and nothing changes, if the machine does not have it. Work already running may finish on the level it began
// with.
Status ForceCpuLevel(std::optional<CpuLevel> level);

}  // namespace xorbit
