#include "base/staged_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/text.h"

namespace xorbit {
namespace {

fs::path ParentOf(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

constexpr size_t kRandomDigits = 8;

// Process ids come round again, in containers at once: a random number keeps what a killed process left out of our way.
std::string UniqueSuffix() { return std::to_string(::getpid()) + "-" + ToHex(std::random_device{}(), kRandomDigits); }

bool IsUniqueSuffix(std::string_view text) {
  const size_t dash = text.find('-');
  const auto is_all = [](std::string_view part, std::string_view allowed) {
    return !part.empty() && part.find_first_not_of(allowed) == part.npos;
  };
  return dash != text.npos && is_all(text.substr(0, dash), "0123456789") && text.size() - dash - 1 == kRandomDigits &&
         is_all(text.substr(dash + 1), "0123456789abcdef");
}

enum class Lock { kHeld, kTaken, kImpossible };

// Locks the folder for as long as *fd lives. Whoever removes one has locked it before, so a folder is held only if it is still
// there afterwards.
Lock LockFolder(const fs::path& folder, UniqueFd* fd) {
  *fd = UniqueFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd->valid()) return errno == ENOENT ? Lock::kTaken : Lock::kImpossible;
  if (::flock(fd->get(), LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK ? Lock::kTaken : Lock::kImpossible;
  struct stat locked {};
  struct stat named {};
  const bool is_there = ::fstat(fd->get(), &locked) == 0 && ::lstat(folder.c_str(), &named) == 0;
  return is_there && locked.st_dev == named.st_dev && locked.st_ino == named.st_ino ? Lock::kHeld : Lock::kTaken;
}

// Guards the names: a folder is published or removed, never one while the other goes on.
struct Staged {
  std::mutex mutex;
  std::set<fs::path> folders;  // temporary ones that are there
};

Staged& AllStaged() {
  static Staged staged;
  return staged;
}

void RemoveAbandoned(const fs::path& parent, std::string_view prefix) {
  std::error_code error;
  fs::directory_iterator entries(parent, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (!name.starts_with(prefix) || !IsUniqueSuffix(std::string_view(name).substr(prefix.size()))) continue;
    UniqueFd lock;
    if (LockFolder(entries->path(), &lock) != Lock::kHeld) continue;
    std::error_code ignored;  // another user's, perhaps
    fs::remove_all(entries->path(), ignored);
  }
}

}  // namespace

Result<StagedFolder> StagedFolder::Make(FileOps& ops, const fs::path& target) {
  const fs::path place = WithoutLastSlash(target);
  if (!place.has_filename()) return UsageError("'" + target.string() + "' cannot be the name of a new folder");
  std::error_code unknown;  // then Publish will tell
  if (fs::exists(fs::symlink_status(place, unknown))) {
    return ExistsError("'" + place.string() + "' exists already; remove it or choose another name");
  }
  return MakeScratch(ops, place);
}

Result<StagedFolder> StagedFolder::MakeScratch(FileOps& ops, const fs::path& place) {
  const std::string prefix = "." + place.filename().string() + ".tmp-";
  RemoveAbandoned(ParentOf(place), prefix);
  constexpr int kMaxTries = 10;
  for (int attempt = 1;; ++attempt) {
    const fs::path staging = ParentOf(place) / (prefix + UniqueSuffix());
    {
      const std::lock_guard guard(AllStaged().mutex);
      XORBIT_RETURN_IF_ERROR(ops.MakeFolder(staging));
      AllStaged().folders.insert(staging);
    }
    UniqueFd lock;
    // Somebody who looked for what is abandoned may have been faster than our lock, and remove it: then another one.
    if (LockFolder(staging, &lock) == Lock::kTaken && attempt < kMaxTries) continue;
    return StagedFolder(ops, place, staging, std::move(lock));
  }
}

StagedFolder::StagedFolder(FileOps& ops, fs::path target, fs::path staging, UniqueFd lock)
    : ops_(&ops), target_(std::move(target)), staging_(std::move(staging)), lock_(std::move(lock)) {}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : ops_(other.ops_),
      target_(std::move(other.target_)),
      staging_(std::exchange(other.staging_, {})),
      lock_(std::move(other.lock_)) {}

StagedFolder::~StagedFolder() {
  if (staging_.empty()) return;
  const std::lock_guard guard(AllStaged().mutex);
  std::error_code ignored;  // the error that brought us here is the one to report
  fs::remove_all(staging_, ignored);
  AllStaged().folders.erase(staging_);
}

Status StagedFolder::Publish() {
  XORBIT_RETURN_IF_ERROR(ops_->SyncFolder(staging_));
  {
    const std::lock_guard guard(AllStaged().mutex);
    XORBIT_RETURN_IF_ERROR(ops_->RenameNoReplace(staging_, target_));
    AllStaged().folders.erase(staging_);
  }
  staging_.clear();
  return ops_->SyncFolder(ParentOf(target_));
}

Status StagedFolder::PublishEntry(const fs::path& name, const fs::path& target) {
  const fs::path place = WithoutLastSlash(target);
  {
    const std::lock_guard guard(AllStaged().mutex);
    XORBIT_RETURN_IF_ERROR(ops_->RenameNoReplace(staging_ / name, place));
  }
  return ops_->SyncFolder(ParentOf(place));
}

void RemoveStagedFolders() {
  AllStaged().mutex.lock();  // for good
  for (const fs::path& folder : AllStaged().folders) {
    constexpr int kTries = 3;  // other threads may still put files into it
    std::error_code error;
    for (int i = 0; i == 0 || (error && i < kTries); ++i) fs::remove_all(folder, error);
  }
}

}  // namespace xorbit
