#include "cli/end_to_end_marks.h"

#include <sstream>

#include "base/steady_clock.h"

namespace xorbit {
namespace {

constexpr std::string_view kSpanBegin = "span begins ";
constexpr std::string_view kSpanEnd = "span ends ";

}  // namespace

void MarkLog::AddNow(uint64_t version, std::string_view name) { Add(version, name, SteadyNs()); }

void MarkLog::Merge(const MarkLog& other) {
  for (const auto& [version, marks] : other.versions_) versions_[version].insert(marks.begin(), marks.end());
}

void MarkLog::AddSpan(uint64_t version, const TimedSpan& span) {
  const std::string name = span.process + '/' + span.row + '/' + span.name;
  Add(version, std::string(kSpanBegin) + name, span.begin_ns);
  Add(version, std::string(kSpanEnd) + name, span.end_ns);
}

std::vector<TimedSpan> SpansIn(const Marks& marks) {
  std::vector<TimedSpan> spans;
  for (auto mark = marks.lower_bound(kSpanBegin); mark != marks.end() && mark->first.starts_with(kSpanBegin); ++mark) {
    const std::string name = mark->first.substr(kSpanBegin.size());
    const auto end = marks.find(std::string(kSpanEnd) + name);
    if (end == marks.end()) continue;
    const size_t row = name.find('/') + 1;
    const size_t slice = name.find('/', row) + 1;
    spans.push_back(
        {name.substr(0, row - 1), name.substr(row, slice - row - 1), name.substr(slice), mark->second, end->second});
  }
  return spans;
}

Status MarkLog::Write(const fs::path& path) const {
  std::string text;
  for (const auto& [version, marks] : versions_) {
    for (const auto& [name, value] : marks) {
      text += std::to_string(version) + ' ' + std::to_string(value) + ' ' + name + '\n';
    }
  }
  return WriteWholeFile(PosixFileOps(), path, AsBytes(text));
}

Result<MarkLog> MarkLog::Read(const fs::path& path) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 20;
  XORBIT_ASSIGN_OR_RETURN(const Buffer bytes, ReadWholeFile(path, kMostBytes));
  std::istringstream lines{std::string(AsText(bytes))};
  MarkLog log;
  uint64_t version = 0;
  int64_t value = 0;
  std::string name;
  while (lines >> version >> value && std::getline(lines >> std::ws, name)) log.Add(version, name, value);
  return log;
}

}  // namespace xorbit
