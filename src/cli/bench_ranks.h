// `xorbit bench --ranks N --trainers M`: sampler ranks that change together and trainer ranks that own disjoint parts, each a
// process, over this machine's GPUs or in host memory (docs/design/cohorts.md).
#pragma once

#include "cli/command.h"

namespace xorbit {

struct RanksBenchOptions {
  uint32_t ranks = 0;  // 0: another benchmark is wanted
  uint32_t engines = 1;
  uint32_t trainers = 1;
  std::string devices = "all";
  bool kills = false;
  std::string nccl;
  std::string scratch;
  // Given with the command's other options.
  bool on_devices = false;
  double gigabytes = 1;
  double percent = 1;
  uint32_t rounds = 5;
  std::string csv;
};

void AddRanksBenchOptions(CLI::App* command, RanksBenchOptions* options);

// kCorrupt if any byte is wrong anywhere, the ranks' digests do not add up, or a kill leaves a rank updated.
Result<Answer> RunRanksBench(const RanksBenchOptions& options);

}  // namespace xorbit
