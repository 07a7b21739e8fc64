// What the processes of `xorbit bench --end-to-end` noted, as phases: for a table, JSON, CSV and a trace.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/end_to_end_marks.h"

namespace xorbit {

// What a run was asked for, as its report repeats it.
struct EndToEndSetting {
  std::string backend;  // and how it is used, if it is not the ordinary way
  std::string codec;
  std::string workload;
  uint64_t share_bytes = 0;  // as made
  uint32_t owner_count = 1;
  double gbps = 0;  // of the link that all shares of the model take together
  double rtt_ms = 0;

  // Shares that make up the reference's 445 GB.
  double share_count() const;
  double share_gbps() const { return gbps / share_count(); }
};

// Milliseconds, over all versions. Phases of different actors overlap.
struct EndToEndPhase {
  std::string actor;
  std::string name;
  double begin_ms = 0;  // after the step's end, median
  double median_ms = 0;
  double least_ms = 0;
  double most_ms = 0;
};

struct EndToEndReport {
  EndToEndSetting setting;
  size_t rounds = 0;
  std::vector<EndToEndPhase> phases;  // the last: everything
  uint64_t payload_bytes = 0;         // the largest
  uint64_t change_count = 0;
  uint64_t wrong_bytes = 0;
};

// kCorrupt if a mark is missing.
Result<EndToEndReport> ReportOf(const EndToEndSetting& setting, const MarkLog& log);
std::string TableOf(const EndToEndReport& report);
Json FieldsOf(const EndToEndReport& report);
std::string CsvOf(const EndToEndReport& report);
// The versions' phases one after the other, and what the device's streams did in the pause, as a Chrome trace, which Perfetto
// shows.
Result<std::string> TraceOf(const MarkLog& log);

}  // namespace xorbit
