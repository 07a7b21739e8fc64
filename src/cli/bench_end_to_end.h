// `xorbit bench --end-to-end`: from a step's end to samplers that serve the new weights, over a store and a link of a chosen
// rate and delay (docs/design/end-to-end.md).
#pragma once

#include "cli/command.h"

namespace xorbit {

struct EndToEndBenchOptions {
  bool is_wanted = false;
  double gbps = 100;
  double rtt_ms = 1;
  uint32_t parts = 16;
  bool serving = false;
  std::string decoder;
  bool keeps_state = false;
  bool skips_payload_hash = false;
  std::string trace;
  // Given with the command's other options.
  bool on_device = false;
  double gigabytes = 1;
  std::string workload = "reference-bit";
  std::string codec = "sparse";
  uint32_t rounds = 5;
  std::string scratch;
  std::string csv;
};

void AddEndToEndBenchOptions(CLI::App* command, EndToEndBenchOptions* options);

// kCorrupt if any byte is wrong after any update.
Result<Answer> RunEndToEndBench(const EndToEndBenchOptions& options);

}  // namespace xorbit
