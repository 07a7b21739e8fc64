#include "server/delta_manifest.h"

#include <algorithm>

#include "base/sha256.h"
#include "base/text.h"

namespace xorbit {

Result<Manifest> ReadNamedManifest(const fs::path& store_root, const std::string& path, const std::string& sha256) {
  std::error_code error;
  const fs::path root = fs::canonical(store_root, error);
  if (error) return IoError("cannot find the store " + Quoted(store_root.string()) + ": " + error.message());
  // One answer for what is outside and what is not there: nobody learns what else is on this disk.
  const Status refused = RefusedError("manifest_path " + Quoted(path) + " names no file in this sampler's store");
  if (path.empty() || path.find('\0') != std::string::npos) return refused;
  const fs::path found = fs::canonical(root / path, error);  // an absolute path stays one
  if (error) return refused;
  if (std::ranges::mismatch(root, found).in1 != root.end()) return refused;
  const Result<Buffer> bytes = ReadWholeFile(found, kMaxManifestBytes);
  if (!bytes.ok()) return refused;
  if (!sha256.empty() && sha256 != ToHex(Sha256Of(*bytes))) {
    return RefusedError("manifest_path " + Quoted(path) + " has another SHA-256 than manifest_sha256");
  }
  return ParseManifest(AsText(*bytes));
}

}  // namespace xorbit
