#include "transport/folder_store.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>
#include <mutex>
#include <random>
#include <set>
#include <system_error>
#include <utility>

namespace xorbit {
namespace {

constexpr std::string_view kTemporaryFolder = ".tmp";
constexpr std::string_view kTemporaryPrefix = "xorbit-";  // by which we know our files in a folder that others may use too
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kAbandonedNs = int64_t{24} * 3600 * kNsPerSecond;
constexpr size_t kCompareBytes = size_t{1} << 20;

// Anybody may set a file's time to anything: what lies outside becomes the nearest, so that times can be subtracted.
int64_t ModifiedNs(const struct stat& info) {
  constexpr int64_t kMaxSeconds = std::numeric_limits<int64_t>::max() / kNsPerSecond - 1;
  return std::clamp<int64_t>(info.st_mtim.tv_sec, 0, kMaxSeconds) * kNsPerSecond + info.st_mtim.tv_nsec;
}

// Process ids come round again, and two machines may share the folder: hence the random number.
std::string UniqueName() {
  static std::atomic<uint64_t> counter{0};
  static const uint32_t chance = std::random_device{}();
  return std::string(kTemporaryPrefix) + std::to_string(::getpid()) + "-" + std::to_string(chance) + "-" +
         std::to_string(counter.fetch_add(1));
}

// Only if that is certain: whatever else goes wrong (no permission, a stale handle, too many links) is no absence.
bool IsMissing(const fs::path& path) {
  std::error_code unknown;
  return !fs::exists(path, unknown) && !unknown;
}

// Does the file hold exactly these pieces, end to end?
Result<bool> HoldsPieces(const fs::path& path, std::span<const ConstBytes> pieces) {
  XORBIT_ASSIGN_OR_RETURN(const UniqueFd fd, OpenForRead(path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return ErrnoError("cannot read the size of '" + path.string() + "'", errno);
  uint64_t total = 0;
  for (const ConstBytes piece : pieces) total += piece.size();
  if (static_cast<uint64_t>(info.st_size) != total) return false;
  Buffer buffer;
  uint64_t at = 0;
  for (ConstBytes piece : pieces) {
    while (!piece.empty()) {
      buffer.resize(std::min(piece.size(), kCompareBytes));
      XORBIT_RETURN_IF_ERROR(ReadAt(fd, buffer, at));
      if (!std::equal(buffer.begin(), buffer.end(), piece.begin())) return false;
      at += buffer.size();
      piece = piece.subspan(buffer.size());
    }
  }
  return true;
}

// Removes a temporary file, whatever happened to it.
class TemporaryName {
 public:
  TemporaryName(FileOps& ops, fs::path path) : ops_(ops), path_(std::move(path)) {}
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;
  ~TemporaryName() {
    if (!path_.empty()) (void)ops_.Unlink(path_);  // what stays is removed in a day
  }
  const fs::path& path() const { return path_; }
  void Release() { path_.clear(); }

 private:
  FileOps& ops_;
  fs::path path_;
};

class FolderStore final : public ObjectStore {
 public:
  FolderStore(FileOps& ops, fs::path root) : ops_(ops), root_(std::move(root)), temporary_(root_ / kTemporaryFolder) {}

  Result<Buffer> Get(std::string_view key, uint64_t limit_bytes) override {
    XORBIT_ASSIGN_OR_RETURN(const fs::path path, PathOf(key));
    Result<Buffer> bytes = ReadWholeFile(path, limit_bytes);
    if (!bytes.ok()) return Explain(bytes.status(), key);
    return bytes;
  }

  Status ReadInto(std::string_view key, uint64_t offset_bytes, MutableBytes bytes) override {
    XORBIT_ASSIGN_OR_RETURN(const fs::path path, PathOf(key));
    Result<UniqueFd> fd = OpenForRead(path);
    if (!fd.ok()) return Explain(fd.status(), key);
    return ReadAt(*fd, bytes, offset_bytes).WithContext(path.string());
  }

  Result<ObjectInfo> Stat(std::string_view key) override {
    XORBIT_ASSIGN_OR_RETURN(const fs::path path, PathOf(key));
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) {
      return Explain(ErrnoError("cannot look at '" + path.string() + "'", errno), key);
    }
    if (!S_ISREG(info.st_mode)) return RefusedError("'" + path.string() + "' is not a regular file");
    return ObjectInfo{std::string(key), static_cast<uint64_t>(info.st_size), ModifiedNs(info)};
  }

  // link(2) instead of a rename that does not replace: NFS has no such rename. Its reply may be lost on the way, so an error
  // is judged by what is there: if the temporary file has a second name, it is ours that won.
  Status PutNew(std::string_view key, std::span<const ConstBytes> pieces) override {
    XORBIT_ASSIGN_OR_RETURN(const fs::path path, PathOf(key));
    XORBIT_RETURN_IF_ERROR(PrepareToWrite());
    XORBIT_RETURN_IF_ERROR(MakeFoldersOf(path));
    TemporaryName temporary(ops_, temporary_ / UniqueName());
    XORBIT_ASSIGN_OR_RETURN(const UniqueFd fd, WriteTemporary(temporary.path(), pieces));
    const Status linked = ops_.Link(temporary.path(), path);
    if (!linked.ok()) {
      struct stat info {};
      const bool won = ::fstat(fd.get(), &info) == 0 && info.st_nlink >= 2;
      if (!won) return JudgeExisting(key, path, pieces, linked);
    }
    return ops_.SyncFolder(path.parent_path());  // the object exists for good from here on
  }

  Status Replace(std::string_view key, ConstBytes bytes) override {
    XORBIT_ASSIGN_OR_RETURN(const fs::path path, PathOf(key));
    XORBIT_RETURN_IF_ERROR(PrepareToWrite());
    XORBIT_RETURN_IF_ERROR(MakeFoldersOf(path));
    TemporaryName temporary(ops_, temporary_ / UniqueName());
    XORBIT_RETURN_IF_ERROR(WriteTemporary(temporary.path(), std::span<const ConstBytes>(&bytes, 1)).status());
    XORBIT_RETURN_IF_ERROR(ops_.Rename(temporary.path(), path));
    temporary.Release();
    return {};
  }

  Status Remove(std::string_view key) override {
    XORBIT_ASSIGN_OR_RETURN(const fs::path path, PathOf(key));
    const Status removed = ops_.Unlink(path);
    if (!removed.ok() && Explain(removed, key).code() != Code::kNotFound) return removed;
    return {};
  }

  Status Sync(std::string_view key) override {
    XORBIT_ASSIGN_OR_RETURN(const fs::path path, PathOf(key));
    const fs::path folder = path.parent_path();
    // Read-only media hold what they hold, and some of their file systems know no fsync.
    struct statvfs system {};
    if (::statvfs(folder.c_str(), &system) == 0 && (system.f_flag & ST_RDONLY) != 0) return {};
    return ops_.SyncFolder(folder);
  }

  Result<std::vector<ObjectInfo>> List(std::string_view prefix) override {
    const size_t slash = prefix.rfind('/');
    const std::string folder(slash == std::string_view::npos ? "" : prefix.substr(0, slash));
    if (!folder.empty()) XORBIT_RETURN_IF_ERROR(CheckObjectKey(folder));
    std::vector<ObjectInfo> found;
    XORBIT_RETURN_IF_ERROR(ListFolder(folder, prefix, &found));
    std::sort(found.begin(), found.end(), [](const ObjectInfo& a, const ObjectInfo& b) { return a.key < b.key; });
    return found;
  }

  Result<int64_t> NowNs() override {
    XORBIT_RETURN_IF_ERROR(PrepareToWrite());
    return ReadClock();
  }

 private:
  Result<int64_t> ReadClock() {
    TemporaryName temporary(ops_, temporary_ / UniqueName());
    XORBIT_ASSIGN_OR_RETURN(const UniqueFd fd, ops_.Create(temporary.path(), /*exclusive=*/true));
    XORBIT_RETURN_IF_ERROR(ops_.Pwrite(fd, AsBytes("now"), 0));
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) return ErrnoError("cannot read the clock of '" + root_.string() + "'", errno);
    return ModifiedNs(info);
  }

  // What the first write needs. Reading touches nothing, for a store may be read-only, and any folder may be named by mistake.
  Status PrepareToWrite() {
    {
      const std::lock_guard lock(mutex_);
      if (is_prepared_) return {};
    }
    if (Status made = ops_.MakeFolder(root_); !made.ok() && made.code() != Code::kExists) return made;
    if (Status made = ops_.MakeFolder(temporary_); !made.ok() && made.code() != Code::kExists) return made;
    struct stat info {};
    if (::lstat(temporary_.c_str(), &info) != 0) return ErrnoError("cannot look at '" + temporary_.string() + "'", errno);
    if (!S_ISDIR(info.st_mode)) {
      return RefusedError("'" + temporary_.string() + "' must be a folder, for the store's temporary files");
    }
    XORBIT_RETURN_IF_ERROR(ops_.SyncFolder(root_.parent_path()));
    RemoveAbandoned();
    const std::lock_guard lock(mutex_);
    is_prepared_ = true;
    return {};
  }

  Result<fs::path> PathOf(std::string_view key) const {
    XORBIT_RETURN_IF_ERROR(CheckObjectKey(key));
    return root_ / key;
  }

  // A file where the key has a folder means that the object is not there either.
  Status Explain(const Status& error, std::string_view key) const {
    const bool missing = error.code() == Code::kNotFound || (error.code() == Code::kIo && IsMissing(root_ / key));
    if (missing) return NotFoundError("'" + (root_ / key).string() + "' is not there");
    return error;
  }

  Result<UniqueFd> WriteTemporary(const fs::path& path, std::span<const ConstBytes> pieces) {
    XORBIT_ASSIGN_OR_RETURN(UniqueFd fd, ops_.Create(path, /*exclusive=*/true));
    uint64_t at = 0;
    for (const ConstBytes piece : pieces) {
      XORBIT_RETURN_IF_ERROR(ops_.Pwrite(fd, piece, at).WithContext(path.string()));
      at += piece.size();
    }
    XORBIT_RETURN_IF_ERROR(ops_.Sync(fd).WithContext(path.string()));
    return fd;
  }

  // The name was taken, or nobody knows. Whoever linked it fsynced the file before, but perhaps not yet the folder.
  Status JudgeExisting(std::string_view key, const fs::path& path, std::span<const ConstBytes> pieces, const Status& linked) {
    if (linked.code() != Code::kExists && IsMissing(path)) return linked;
    XORBIT_ASSIGN_OR_RETURN(const bool same, HoldsPieces(path, pieces));
    XORBIT_RETURN_IF_ERROR(ops_.SyncFolder(path.parent_path()));
    if (same) return {};
    return ExistsError("'" + (root_ / key).string() + "' exists already, with other content");
  }

  // A folder that somebody else made a moment ago may not be on disk yet. So each is synced by us too, once.
  Status MakeFoldersOf(const fs::path& path) {
    std::vector<fs::path> missing;
    {
      const std::lock_guard lock(mutex_);
      for (fs::path folder = path.parent_path(); folder != root_ && !durable_folders_.contains(folder.string());
           folder = folder.parent_path()) {
        missing.push_back(folder);
      }
    }
    for (auto folder = missing.rbegin(); folder != missing.rend(); ++folder) {
      if (Status made = ops_.MakeFolder(*folder); !made.ok() && made.code() != Code::kExists) return made;
      XORBIT_RETURN_IF_ERROR(ops_.SyncFolder(folder->parent_path()));
      const std::lock_guard lock(mutex_);
      durable_folders_.insert(folder->string());
    }
    return {};
  }

  // Appends the objects below `folder` (a key, or empty) whose keys begin with `prefix`. Links to folders are not followed:
  // they may go round in circles, or out of the store to files that a collector must not take for objects.
  Status ListFolder(const std::string& folder, std::string_view prefix, std::vector<ObjectInfo>* found) {
    std::error_code error;
    fs::directory_iterator entries(root_ / folder, error);
    if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) return {};
    for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
      const std::string key =
          folder.empty() ? entries->path().filename().string() : folder + "/" + entries->path().filename().string();
      const size_t common = std::min(key.size(), prefix.size());
      if (std::string_view(key).substr(0, common) != prefix.substr(0, common) || !CheckObjectKey(key).ok()) continue;
      std::error_code vanished;
      if (fs::is_directory(entries->symlink_status(vanished))) {
        XORBIT_RETURN_IF_ERROR(ListFolder(key, prefix, found));
      } else if (key.size() >= prefix.size()) {
        Result<ObjectInfo> info = Stat(key);
        if (info.status().code() == Code::kIo) return info.status();
        if (info.ok()) found->push_back(std::move(info).value());  // else it vanished, or is no object
      }
    }
    if (error) return ErrnoError("cannot list '" + (root_ / folder).string() + "'", error.value());
    return {};
  }

  void RemoveAbandoned() {
    const Result<int64_t> now = ReadClock();
    if (!now.ok()) return;
    std::error_code error;
    fs::directory_iterator entries(temporary_, error);
    for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
      const fs::path& path = entries->path();
      struct stat info {};
      if (!path.filename().string().starts_with(kTemporaryPrefix)) continue;
      if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
      if (*now - ModifiedNs(info) > kAbandonedNs) (void)ops_.Unlink(path);
    }
  }

  FileOps& ops_;
  const fs::path root_;
  const fs::path temporary_;
  std::mutex mutex_;
  bool is_prepared_ = false;               // guarded by mutex_: PrepareToWrite has succeeded
  std::set<std::string> durable_folders_;  // guarded by mutex_: their names are on disk
};

}  // namespace

Result<std::unique_ptr<ObjectStore>> OpenFolderStore(FileOps& ops, const fs::path& root) {
  fs::path place = WithoutLastSlash(root);
  if (place.empty()) return UsageError("the name of the store's folder is empty");
  return std::unique_ptr<ObjectStore>(std::make_unique<FolderStore>(ops, std::move(place)));
}

}  // namespace xorbit
