// Manifests. What is accepted must come out the same when it is written and read again.
#include <cstdlib>

#include "payload/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto manifest = xorbit::ParseManifest(xorbit::AsText({data, size}));
  if (!manifest.ok()) return 0;
  const std::string text = xorbit::WriteManifest(*manifest);
  const auto again = xorbit::ParseManifest(text);
  if (!again.ok() || xorbit::WriteManifest(*again) != text) std::abort();
  return 0;
}
