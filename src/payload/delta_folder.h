// A delta as a folder, made by hand: manifest.json, layouts/<digest>.json, one .xob per owner. docs/formats/delta-folder.md.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "payload/delta.h"

namespace xorbit {

// Writes the folder whole or not at all, and never over anything (kExists): a StagedFolder, every file and folder synced, the
// manifest last, then the rename. payloads[i] is owner i of `manifest` (see SealManifest).
Status WriteDeltaFolder(FileOps& ops, const fs::path& folder, const Layout& layout, const Manifest& manifest,
                        const std::vector<Payload>& payloads);

// Puts the files of a delta at hand into a folder that is there: each synced, as are folders below it, but not itself. The
// manifest comes last. kExists if a file is there.
Status WriteDeltaFiles(FileOps& ops, const fs::path& folder, const Delta& delta);

// kNotFound if there is no manifest or a file that it names is missing; otherwise as OpenDelta.
Result<Delta> OpenDeltaFolder(const fs::path& folder, const OpenOptions& options);

}  // namespace xorbit
