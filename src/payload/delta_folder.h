// A delta as a folder, made by hand: manifest.json, layouts/<digest>.json, one .xob per owner. docs/formats/delta-folder.md.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "payload/manifest.h"
#include "payload/payload_reader.h"

namespace xorbit {

// Writes the folder whole or not at all, and never over anything (kExists): a StagedFolder, every file and folder synced, the
// manifest last, then the rename. payloads[i] is owner i of `manifest` (see SealManifest).
Status WriteDeltaFolder(FileOps& ops, const fs::path& folder, const Layout& layout, const Manifest& manifest,
                        const std::vector<Payload>& payloads);

// An opened delta: everything checked that can be checked without decoding, unless told otherwise.
struct Delta {
  fs::path folder;
  Manifest manifest;
  Layout layout;
  std::vector<MappedFile> files;      // owner order; the views point into them
  std::vector<PayloadView> payloads;  // owner order
  uint64_t total_file_bytes = 0;      // manifest and payloads: all that a receiver with the layout at hand fetches
};

struct OpenOptions {
  int threads = 1;
  bool verify_hashes = true;  // whole-file and head SHA-256, chunk SHA-256
};

// kNotFound if there is no manifest or a file that it names is missing; otherwise an error with the file's name if anything
// does not match: sizes, hashes, layout digest, payload heads against the manifest, the owners' changes against target - base,
// and ownership: the owners' parts cover the layout's tensors (less frozen and empty ones) exactly once. Plain data, immutable
// while in use.
Result<Delta> OpenDeltaFolder(const fs::path& folder, const OpenOptions& options);

}  // namespace xorbit
