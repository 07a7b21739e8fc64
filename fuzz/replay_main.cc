// Stands in for libFuzzer where the compiler has none: runs a fuzz target once over the empty input and over every file named
// on the command line or found in a folder named there, in the order of their names. A target reports a failure by aborting, as
// under libFuzzer.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> FilesIn(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool Replay(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  if (!stream.good() && !stream.eof()) {
    std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
    return false;
  }
  std::fprintf(stderr, "%s\n", path.c_str());
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return true;
}

}  // namespace

int main(int argument_count, char** arguments) {
  const uint8_t nothing = 0;
  LLVMFuzzerTestOneInput(&nothing, 0);
  bool all_read = true;
  for (int i = 1; i < argument_count; ++i) {
    for (const fs::path& file : FilesIn(arguments[i])) all_read = Replay(file) && all_read;
  }
  return all_read ? 0 : 1;
}
