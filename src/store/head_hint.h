// head.json: where the newest version probably is. The only object that is ever replaced; a hint, which readers confirm.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace xorbit {

inline constexpr uint64_t kMaxHeadHintBytes = 4096;

std::string WriteHeadHint(uint64_t newest_version);
Result<uint64_t> ParseHeadHint(std::string_view json);  // kCorrupt, kUnsupported

}  // namespace xorbit
