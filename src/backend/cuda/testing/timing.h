// Times of kernels by events, and the lines in which they are reported: one CSV row a measurement.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/cuda_memory.h"
#include "base/status.h"

namespace xorbit::cuda::testing {

struct Timing {
  double median_ms = 0;
  double least_ms = 0;
  double most_ms = 0;
};

// One measurement, or one thing that was noted.
struct ReportRow {
  std::string benchmark;
  std::string variant;
  Timing timing;
  uint64_t runs = 0;  // 0: a note
  uint64_t byte_count = 0;
  uint64_t change_count = 0;
  std::string note;
};
// "time,benchmark,variant,median ms,least,most,runs,bytes,changes,GB/s,billion changes/s" or "note,benchmark,name,value".
std::string CsvLineOf(const ReportRow& row);

// Hands out lines as they come, keeps the rows and remembers whether anything failed.
class Report {
 public:
  using Print = std::function<void(const std::string& line)>;
  Report(cudaStream_t stream, int repeats, Print print) : stream_(stream), repeats_(repeats), print_(std::move(print)) {}

  // Runs `launch` a few times to warm up, then `repeats` times between events. An error is printed and counts as a failure.
  Timing Measure(const std::string& benchmark, const std::string& variant, uint64_t byte_count, uint64_t change_count,
                 const std::function<Status()>& launch);
  // A row for something that is not timed by events.
  void Note(const std::string& benchmark, const std::string& name, const std::string& value);
  // The same for what the caller has timed, in milliseconds.
  void AddTimes(const std::string& benchmark, const std::string& variant, uint64_t byte_count, uint64_t change_count,
                std::vector<double> times_ms);
  // Any other line.
  void Line(const std::string& line) const { print_(line); }
  // Prints what was expected if it did not hold.
  void Check(bool holds, const std::string& what);
  void Check(const Status& status, const std::string& what) { Check(status.ok(), what + ": " + status.message()); }

  cudaStream_t stream() const { return stream_; }
  uint64_t check_count() const { return check_count_; }
  uint64_t failure_count() const { return failure_count_; }
  int repeats() const { return repeats_; }
  const std::vector<ReportRow>& rows() const { return rows_; }
  const std::string& first_failure() const { return first_failure_; }

 private:
  cudaStream_t stream_;
  int repeats_;
  Print print_;
  std::vector<ReportRow> rows_;
  std::string first_failure_;
  uint64_t check_count_ = 0;
  uint64_t failure_count_ = 0;
};

// Bytes to and from the device, waiting.
Status Upload(uint8_t* to_dev, ConstBytes from);
Status Download(MutableBytes to, const uint8_t* from_dev);

}  // namespace xorbit::cuda::testing
