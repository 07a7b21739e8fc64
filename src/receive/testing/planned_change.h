// A made-up checkpoint with a change of it, for tests of whatever stores changes: bytes before, bytes after, patch blocks.
#pragma once

#include <random>
#include <vector>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "receive/file_target.h"
#include "receive/patch.h"

namespace xorbit {

// A patch block that owns its arrays.
struct OwnedPatch {
  PatchBlock View() const;

  uint32_t file_index = 0;
  uint32_t unit_bytes = 0;
  uint64_t file_offset = 0;
  std::vector<uint16_t> positions;
  Buffer olds;
  Buffer xors;
};

struct PlannedChange {
  JournalIdentity identity;
  std::vector<TargetFile> files;
  std::vector<Buffer> base;         // of files, whole
  std::vector<Buffer> target;       // likewise
  std::vector<OwnedPatch> patches;  // in no order; some interleave

  std::vector<JournalFile> journal_files() const;
  void WriteBaseTo(const fs::path& folder) const;
};

// Files of these sizes; each element changes with this probability; units 1, 2, 4 and 8, at any alignment.
PlannedChange PlanChange(std::mt19937_64& random, const std::vector<uint64_t>& file_sizes, double density);

enum class FilesAre { kBase, kTarget, kNeither };
FilesAre CompareFiles(const PlannedChange& change, const fs::path& folder);

// The whole of what a caller does: Open, Recover, Begin, Add, Commit.
Status ApplyInPlace(FileOps& ops, const fs::path& checkpoint, const PlannedChange& change, int threads = 1);

// Open, Recover.
Result<std::vector<RecoveredChange>> RecoverInPlace(FileOps& ops, const fs::path& checkpoint, RecoveryDirection direction,
                                                    int threads = 1);

}  // namespace xorbit
