// The manifest that a driver names in a request: by a path, which must not lead out of the store.
#pragma once

#include <string>

#include "base/file.h"
#include "payload/manifest.h"

namespace xorbit {

// Reads and checks it. kRefused if it does not lie below `store_root`, whatever links and dots say, or has another hash than
// `sha256` (hexadecimal; empty: not asked). kNotFound, kCorrupt.
Result<Manifest> ReadNamedManifest(const fs::path& store_root, const std::string& path, const std::string& sha256);

}  // namespace xorbit
