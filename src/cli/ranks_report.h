// What a run's processes wrote on the board, as rows: for a table, JSON and CSV.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/ranks_run.h"

namespace xorbit {

// `least`, `median`, `most` over `runs`, in `unit`; a count has all three alike.
struct RanksRow {
  std::string what;
  std::string unit;
  double median = 0;
  double least = 0;
  double most = 0;
  size_t runs = 0;
  std::string note;
};

struct RanksReport {
  std::vector<RanksRow> rows;
  uint64_t wrong_bytes = 0;
  bool digests_equal = false;  // the ranks' sums of the newest version and its record's
  uint64_t payload_objects = 0;
  uint64_t fetched_objects = 0;
};

Result<RanksReport> ReportOf(const RanksRun& run);
std::string TableOf(const RanksRun& run, const RanksReport& report);
Json FieldsOf(const RanksRun& run, const RanksReport& report);
std::string CsvOf(const RanksRun& run, const RanksReport& report, bool with_header);

}  // namespace xorbit
