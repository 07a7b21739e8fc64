#include "transport/object_store.h"

#include <algorithm>

#include "base/text.h"

namespace xorbit {
namespace {

constexpr size_t kMaxKeyBytes = 1024;
constexpr size_t kMaxPartBytes = 255;

bool IsKeyCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

bool IsKeyPart(std::string_view part) {
  return !part.empty() && part.size() <= kMaxPartBytes && part[0] != '.' &&
         std::all_of(part.begin(), part.end(), IsKeyCharacter);
}

}  // namespace

Status CheckObjectKey(std::string_view key) {
  bool good = key.size() <= kMaxKeyBytes;
  for (std::string_view rest = key; good;) {
    const size_t slash = rest.find('/');
    good = IsKeyPart(rest.substr(0, slash));
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  if (good) return {};
  return UsageError(Quoted(key) +
                    " cannot be an object's key: letters, digits, '.', '_' and '-' between single slashes, no part beginning "
                    "with '.'");
}

}  // namespace xorbit
