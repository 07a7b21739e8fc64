// A folder that appears whole or not at all: filled under a temporary name beside its place, then renamed into it.
#pragma once

#include "base/file.h"

namespace xorbit {

// Movable, not copyable. Removes the temporary folder and what is in it on destruction, unless Publish succeeded. What a killed
// process leaves is a hidden sibling named ".<name>.tmp-<process id>-<random>", perhaps a whole model: it disturbs nobody, is
// safe to remove, and is removed when the same target is made again (where the file system can lock folders: by its lock one
// sees that its maker lives).
class StagedFolder {
 public:
  // kExists if `target` is there: a hint, for the decision is Publish's. `ops` must outlive the object.
  static Result<StagedFolder> Make(FileOps& ops, const fs::path& target);
  // For files that only this object needs: `place` lends its name, and does not matter otherwise.
  static Result<StagedFolder> MakeScratch(FileOps& ops, const fs::path& place);
  ~StagedFolder();
  StagedFolder(StagedFolder&& other) noexcept;
  StagedFolder& operator=(StagedFolder&&) = delete;

  // Where to put the files, each of which the caller syncs; sub-folders likewise.
  const fs::path& path() const { return staging_; }

  // fsync of the folder, rename that does not replace (kExists if another process was first), fsync of the parent. If only that
  // last step fails the folder is in its place, whole, and a power cut may take it away again.
  Status Publish();
  // Moves one of its entries, synced, to `target` instead, likewise whole or not at all; the rest goes with the object.
  Status PublishEntry(const fs::path& name, const fs::path& target);

 private:
  StagedFolder(FileOps& ops, fs::path target, fs::path staging, UniqueFd lock);

  FileOps* ops_;
  fs::path target_;
  fs::path staging_;  // empty once renamed or moved from
  UniqueFd lock_;     // on staging_, if that is possible
};

// Removes the temporary folders of all StagedFolders of the process: for when it is being stopped and no destructor will run.
// Whoever publishes or makes one afterwards waits for the end.
void RemoveStagedFolders();

}  // namespace xorbit
