// What `xorbit bench` measures, and which of its options mean something there: one that would be ignored is refused.
#pragma once

#include "cli/command.h"

namespace xorbit {

enum class BenchMode : uint32_t {
  kCodecs = 1,
  kDevice = 2,
  kRanks = 4,
  kRanksOnDevices = 8,
  kEndToEnd = 16,
  kEndToEndOnDevice = 32,
};

// kUsage, naming the first option of the command line that `mode` does not look at, and who does.
Status RefuseUnusedOptions(const CLI::App& command, BenchMode mode);

}  // namespace xorbit
