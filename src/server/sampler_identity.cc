#include "server/sampler_identity.h"

#include <unistd.h>

#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

#include "base/text.h"

namespace xorbit {
namespace {

// Field 22 of /proc/self/stat, counted behind the command's name, which stands in parentheses and may hold anything.
uint64_t StartTicks() {
  constexpr int kFieldsBefore = 20;       // from the one behind the name
  std::ifstream stat("/proc/self/stat");  // whose size is 0 until it is read
  std::string line;
  std::getline(stat, line, '\0');
  std::string_view text = line;
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return 0;
  text.remove_prefix(name_end + 1);
  for (int i = 0; i < kFieldsBefore; ++i) {
    const size_t blank = text.find(' ');
    if (blank == std::string_view::npos) return 0;
    text.remove_prefix(blank + 1);
  }
  uint64_t ticks = 0;
  std::from_chars(text.data(), text.data() + text.size(), ticks);
  return ticks;
}

}  // namespace

SamplerIdentity ThisSampler(const std::string& engine_id) {
  SamplerIdentity identity;
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) == 0) identity.hostname = Printable(name);
  identity.pid = static_cast<uint64_t>(::getpid());
  identity.start_ticks = StartTicks();
  identity.engine_id = engine_id.empty() ? identity.hostname + ":" + std::to_string(identity.pid) : engine_id;
  return identity;
}

}  // namespace xorbit
