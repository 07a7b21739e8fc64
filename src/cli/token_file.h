// Bearer tokens come from files: command lines can be read by everybody on the machine.
#pragma once

#include <string>

#include "base/status.h"

namespace xorbit {

// The token that stands by itself in a file; empty for no file (an empty path). kUsage if the file holds none.
Result<std::string> ReadToken(const std::string& path);

}  // namespace xorbit
