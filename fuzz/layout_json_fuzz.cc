// Layout files, whatever their digest. What is accepted must come out the same when it is written and read again under its
// digest.
#include <cstdlib>

#include "payload/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto layout = xorbit::ParseLayoutJson(xorbit::AsText({data, size}));
  if (!layout.ok()) return 0;
  const auto again = xorbit::ParseLayoutJson(xorbit::WriteLayoutJson(*layout), layout->digest());
  if (!again.ok() || again->tensors() != layout->tensors() || again->groups() != layout->groups()) std::abort();
  return 0;
}
