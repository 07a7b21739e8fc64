// Paths that a request names: none leads out of the store, whatever links and dots say.
#pragma once

#include <string>

#include "base/file.h"
#include "payload/manifest.h"

namespace xorbit {

// Where `path`, absolute or from `store_root` on, leads. kRefused if that is not below it, or is not there: one answer for
// both, so that nobody learns what else is on this disk. `field` is for the message.
Result<fs::path> FindInStore(const fs::path& store_root, const std::string& path, std::string_view field);

// Reads and checks the manifest there. kRefused also if it has another hash than `sha256` (hexadecimal; empty: not asked).
// kCorrupt.
Result<Manifest> ReadNamedManifest(const fs::path& store_root, const std::string& path, const std::string& sha256);

}  // namespace xorbit
