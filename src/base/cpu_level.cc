#include "base/cpu_level.h"

#include <array>
#include <atomic>
#include <string>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

namespace xorbit {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"portable", "avx2", "avx512", "neon"};
constexpr int kNotForced = -1;

// A plain flag: nothing is published through it, so relaxed order is enough.
std::atomic<int> forced_level{kNotForced};

#if defined(__x86_64__)
// clang 16 does not know __builtin_cpu_supports("lzcnt").
bool HasLzcnt() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_LZCNT) != 0;
}
#endif

std::vector<CpuLevel> Detect() {
  std::vector<CpuLevel> levels = {CpuLevel::kPortable};
#if defined(__x86_64__)
  // __builtin_cpu_supports also asks XGETBV, that is whether the operating system saves the wide registers.
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                        __builtin_cpu_supports("popcnt") && HasLzcnt();
  if (has_avx2) levels.push_back(CpuLevel::kAvx2);
  if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
      __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512ifma") && __builtin_cpu_supports("avx512cd")) {
    levels.push_back(CpuLevel::kAvx512);
  }
#elif defined(__aarch64__)
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMD) != 0) levels.push_back(CpuLevel::kNeon);
#endif
  return levels;
}

}  // namespace

std::string_view NameOf(CpuLevel level) { return kNames[static_cast<size_t>(level)]; }

std::optional<CpuLevel> ParseCpuLevel(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<CpuLevel>(i);
  }
  return std::nullopt;
}

const std::vector<CpuLevel>& AvailableCpuLevels() {
  static const std::vector<CpuLevel> levels = Detect();
  return levels;
}

CpuLevel ActiveCpuLevel() {
  const int forced = forced_level.load(std::memory_order_relaxed);
  return forced == kNotForced ? BestCpuLevel() : static_cast<CpuLevel>(forced);
}

Status ForceCpuLevel(std::optional<CpuLevel> level) {
  if (!level) {
    forced_level.store(kNotForced, std::memory_order_relaxed);
    return {};
  }
  for (const CpuLevel available : AvailableCpuLevels()) {
    if (available == *level) {
      forced_level.store(static_cast<int>(*level), std::memory_order_relaxed);
      return {};
    }
  }
  std::string names;
  for (const CpuLevel available : AvailableCpuLevels()) names += " " + std::string(NameOf(available));
  return UnsupportedError("this machine cannot run CPU level '" + std::string(NameOf(*level)) + "'; it has:" + names);
}

}  // namespace xorbit
