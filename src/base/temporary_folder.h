// A folder of its own for each test, removed with all it holds. For tests and benchmarks only.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace xorbit {

class TemporaryFolder {
 public:
  // Under $TMPDIR or /tmp. A test that cannot have one cannot run: ends the process.
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "xorbit-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace xorbit
