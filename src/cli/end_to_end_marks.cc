#include "cli/end_to_end_marks.h"

#include <sstream>

#include "cli/ranks_board.h"

namespace xorbit {

void MarkLog::AddNow(uint64_t version, std::string_view name) { Add(version, name, NowNs()); }

void MarkLog::Merge(const MarkLog& other) {
  for (const auto& [version, marks] : other.versions_) versions_[version].insert(marks.begin(), marks.end());
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
