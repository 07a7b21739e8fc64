#include "base/staged_folder.h"

#include <unistd.h>

#include <random>
#include <string>
#include <system_error>
#include <utility>

#include "base/text.h"

namespace xorbit {
namespace {

fs::path ParentOf(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// Process ids come round again, in containers at once: a random number keeps what a killed process left out of our way.
std::string UniqueSuffix() { return std::to_string(::getpid()) + "-" + ToHex(std::random_device{}(), 8); }

}  // namespace

Result<StagedFolder> StagedFolder::Make(FileOps& ops, const fs::path& target) {
  const fs::path place = target.has_filename() ? target : target.parent_path();  // "x/" is "x"
  if (!place.has_filename()) return UsageError("'" + target.string() + "' cannot be the name of a new folder");
  std::error_code unknown;  // then Publish will tell
  if (fs::exists(fs::symlink_status(place, unknown))) {
    return ExistsError("'" + place.string() + "' exists already; remove it or choose another name");
  }
  const fs::path staging = ParentOf(place) / ("." + place.filename().string() + ".tmp-" + UniqueSuffix());
  XORBIT_RETURN_IF_ERROR(ops.MakeFolder(staging));
  return StagedFolder(ops, place, staging);
}

StagedFolder::StagedFolder(FileOps& ops, fs::path target, fs::path staging)
    : ops_(&ops), target_(std::move(target)), staging_(std::move(staging)) {}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : ops_(other.ops_), target_(std::move(other.target_)), staging_(std::exchange(other.staging_, {})) {}

StagedFolder::~StagedFolder() {
  if (staging_.empty()) return;
  std::error_code ignored;  // the error that brought us here is the one to report
  fs::remove_all(staging_, ignored);
}

Status StagedFolder::Publish() {
  XORBIT_RETURN_IF_ERROR(ops_->SyncFolder(staging_));
  XORBIT_RETURN_IF_ERROR(ops_->RenameNoReplace(staging_, target_));
  staging_.clear();
  return ops_->SyncFolder(ParentOf(target_));
}

}  // namespace xorbit
