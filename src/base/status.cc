#include "base/status.h"

#include <cerrno>
#include <system_error>

namespace xorbit {

int ExitCodeOf(Code code) {
  switch (code) {
    case Code::kOk:
      return 0;
    case Code::kUsage:
      return 2;
    case Code::kRefused:
    case Code::kCorrupt:
    case Code::kUnsupported:
    case Code::kExists:
      return 1;
    case Code::kNotFound:
    case Code::kIo:
      return 3;
  }
  return 1;
}

std::string_view NameOf(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kUsage:
      return "usage";
    case Code::kRefused:
      return "refused";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kNotFound:
      return "not_found";
    case Code::kExists:
      return "exists";
    case Code::kIo:
      return "io";
  }
  return "unknown";
}

Status ErrnoError(std::string_view what, int error_number) {
  // std::generic_category is the thread-safe spelling of strerror.
  std::string message = std::string(what) + ": " + std::generic_category().message(error_number);
  if (error_number == ENOENT) return NotFoundError(std::move(message));
  if (error_number == EEXIST) return ExistsError(std::move(message));
  return IoError(std::move(message));
}

}  // namespace xorbit
