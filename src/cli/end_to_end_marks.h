// What a process of `xorbit bench --end-to-end` noted: numbers and points in time by name and version, handed to the process
// that reports them through a file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/span_log.h"

namespace xorbit {

// Of one version: a time of CLOCK_MONOTONIC in nanoseconds, or a number.
using Marks = std::map<std::string, int64_t, std::less<>>;

// The spans among a version's marks.
std::vector<TimedSpan> SpansIn(const Marks& marks);

class MarkLog {
 public:
  void Add(uint64_t version, std::string_view name, int64_t value) { versions_[version][std::string(name)] = value; }
  void AddNow(uint64_t version, std::string_view name);
  // As two marks, from which SpansIn makes it again.
  void AddSpan(uint64_t version, const TimedSpan& span);
  // Of all versions, what either log has.
  void Merge(const MarkLog& other);
  const std::map<uint64_t, Marks>& versions() const { return versions_; }

  Status Write(const fs::path& path) const;
  static Result<MarkLog> Read(const fs::path& path);

 private:
  std::map<uint64_t, Marks> versions_;
};

}  // namespace xorbit
