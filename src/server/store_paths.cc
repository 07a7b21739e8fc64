#include "server/store_paths.h"

#include <algorithm>

#include "base/sha256.h"
#include "base/text.h"

namespace xorbit {
namespace {

Status NotThere(std::string_view field, const std::string& path) {
  return RefusedError(std::string(field) + " " + Quoted(path) + " names nothing in this sampler's store");
}

}  // namespace

Result<fs::path> FindInStore(const fs::path& store_root, const std::string& path, std::string_view field) {
  std::error_code error;
  const fs::path root = fs::canonical(store_root, error);
  if (error) return IoError("cannot find the store " + Quoted(store_root.string()) + ": " + error.message());
  if (path.empty() || path.find('\0') != std::string::npos) return NotThere(field, path);
  fs::path found = fs::canonical(root / path, error);  // an absolute path stays one
  if (error || std::ranges::mismatch(root, found).in1 != root.end()) return NotThere(field, path);
  return found;
}

Result<Manifest> ReadNamedManifest(const fs::path& store_root, const std::string& path, const std::string& sha256) {
  XORBIT_ASSIGN_OR_RETURN(const fs::path found, FindInStore(store_root, path, "manifest_path"));
  const Result<Buffer> bytes = ReadWholeFile(found, kMaxManifestBytes);
  if (!bytes.ok()) return NotThere("manifest_path", path);
  if (!sha256.empty() && sha256 != ToHex(Sha256Of(*bytes))) {
    return RefusedError("manifest_path " + Quoted(path) + " has another SHA-256 than manifest_sha256");
  }
  return ParseManifest(AsText(*bytes));
}

}  // namespace xorbit
