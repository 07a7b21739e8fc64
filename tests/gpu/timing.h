// Times of kernels by events, and the lines in which they are reported: one CSV row a measurement.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/cuda_memory.h"
#include "base/status.h"

namespace xorbit::gpu_check {

struct Timing {
  double median_ms = 0;
  double least_ms = 0;
  double most_ms = 0;
};

// Prints rows as they come and remembers whether anything failed.
class Report {
 public:
  explicit Report(cudaStream_t stream, int repeats) : stream_(stream), repeats_(repeats) {}

  // Runs `launch` a few times to warm up, then `repeats` times between events. An error is printed and counts as a failure.
  Timing Measure(const std::string& benchmark, const std::string& variant, uint64_t byte_count, uint64_t change_count,
                 const std::function<Status()>& launch);
  // A row for something that is not timed by events.
  void Note(const std::string& benchmark, const std::string& name, const std::string& value);
  // Prints what was expected if it did not hold.
  void Check(bool holds, const std::string& what);
  void Check(const Status& status, const std::string& what) { Check(status.ok(), what + ": " + status.message()); }

  cudaStream_t stream() const { return stream_; }
  uint64_t check_count() const { return check_count_; }
  uint64_t failure_count() const { return failure_count_; }

 private:
  cudaStream_t stream_;
  int repeats_;
  uint64_t check_count_ = 0;
  uint64_t failure_count_ = 0;
};

// Bytes to and from the device, waiting.
Status Upload(uint8_t* to_dev, ConstBytes from);
Status Download(MutableBytes to, const uint8_t* from_dev);

}  // namespace xorbit::gpu_check
