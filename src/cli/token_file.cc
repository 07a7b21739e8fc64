#include "cli/token_file.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/file.h"

namespace xorbit {

Result<std::string> ReadToken(const std::string& path) {
  if (path.empty()) return std::string();
  XORBIT_ASSIGN_OR_RETURN(const Buffer bytes, ReadWholeFile(path, 4096));
  std::string token(AsText(bytes));
  token.erase(token.find_last_not_of(" \r\n") + 1);
  if (token.empty()) return UsageError(path + " holds no token");
  if (!std::ranges::all_of(token, [](char one) { return one > ' ' && one <= '~'; })) {
    return UsageError(path + " holds more than a token: one line of printable ASCII, without blanks");
  }
  return token;
}

}  // namespace xorbit
