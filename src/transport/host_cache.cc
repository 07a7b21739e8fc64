#include "transport/host_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

namespace xorbit {
namespace {

constexpr std::chrono::milliseconds kLockPoll{1};
constexpr std::chrono::seconds kRest{60};
// Of every file of ours: the folder may hold others, which are none of our business.
constexpr std::string_view kPrefix = "xorbit%";
constexpr std::string_view kLockSuffix = ".lock";
constexpr std::string_view kPartSuffix = ".part";  // written by who holds the lock; it grows, piece by piece
constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

// A key as a file's name: keys have no '%'.
std::string NameOf(std::string_view key) {
  std::string name = std::string(kPrefix) + std::string(key);
  for (size_t at = 0; (at = name.find('/', at)) != std::string::npos; ++at) name.replace(at, 1, "%");
  return name;
}

int64_t SizeOf(const fs::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_size : -1;
}

class HostCache final : public ObjectStore {
 public:
  HostCache(ObjectStore& store, FileOps& ops, fs::path folder, HostCacheOptions options, HostCacheCounts* counts)
      : store_(store), ops_(ops), folder_(std::move(folder)), options_(std::move(options)), counts_(counts) {}

  Result<Buffer> Get(std::string_view key, uint64_t limit_bytes) override {
    if (options_.keeps(key)) {
      const Result<UniqueFd> file = Obtain(key);
      struct stat info {};
      if (file.ok() && ::fstat(file->get(), &info) == 0) {
        const auto byte_count = static_cast<uint64_t>(info.st_size);
        if (byte_count > limit_bytes) return CorruptError(std::string(key) + " is larger than expected");
        Buffer bytes(byte_count);
        XORBIT_RETURN_IF_ERROR(ReadAt(*file, bytes, 0).WithContext(key));
        return bytes;
      }
    }
    return store_.Get(key, limit_bytes);
  }
  Status ReadInto(std::string_view key, uint64_t offset_bytes, MutableBytes bytes) override {
    if (options_.keeps(key)) {
      const Result<UniqueFd> file = Obtain(key);
      if (file.ok()) return ReadAt(*file, bytes, offset_bytes).WithContext(key);
    }
    return store_.ReadInto(key, offset_bytes, bytes);
  }
  Result<ObjectInfo> Stat(std::string_view key) override { return store_.Stat(key); }
  bool DropCopy(std::string_view key) override {
    return options_.keeps(key) && CheckObjectKey(key).ok() && ops_.Unlink(folder_ / NameOf(key)).ok();
  }

  using ObjectStore::PutNew;
  Status PutNew(std::string_view key, std::span<const ConstBytes> pieces) override { return store_.PutNew(key, pieces); }
  Status Replace(std::string_view key, ConstBytes bytes) override { return store_.Replace(key, bytes); }
  Status Remove(std::string_view key) override { return store_.Remove(key); }
  Status Sync(std::string_view key) override { return store_.Sync(key); }
  Result<std::vector<ObjectInfo>> List(std::string_view prefix) override { return store_.List(prefix); }
  Result<int64_t> NowNs() override { return store_.NowNs(); }

 private:
  // The kept copy, fetched if nobody has done so. An error: there is none, and the store has to be asked.
  Result<UniqueFd> Obtain(std::string_view key) {
    XORBIT_RETURN_IF_ERROR(CheckObjectKey(key));
    if (std::chrono::steady_clock::now() < rest_end_.load()) return RefusedError("the folder was of no use a moment ago");
    const fs::path path = folder_ / NameOf(key);
    const fs::path part = path.string() + std::string(kPartSuffix);
    auto last_growth = std::chrono::steady_clock::now();
    for (int64_t last_size = -1;;) {
      Result<UniqueFd> file = OpenForRead(path);
      if (file.ok()) return file;
      Result<FileLock> lock = FileLock::TryAcquire(path.string() + std::string(kLockSuffix));
      if (lock.ok()) return FetchLocked(key, path, &*lock);
      if (lock.status().code() != Code::kRefused) return lock.status();
      // Somebody fetches it, or was stopped while it did.
      const auto now = std::chrono::steady_clock::now();
      if (const int64_t size = SizeOf(part); size != last_size) {
        last_size = size;
        last_growth = now;
      }
      if (now - last_growth > options_.patience) return Noted(RefusedError("who fetches it does not get on"));
      std::this_thread::sleep_for(kLockPoll);
    }
  }

  Result<UniqueFd> FetchLocked(std::string_view key, const fs::path& path, FileLock* lock) {
    Result<UniqueFd> file = OpenForRead(path);  // who had the lock before may have come to the end
    if (!file.ok()) {
      file = Fetch(key, path);
    }
    static_cast<void>(lock->RemoveFile());
    return file;
  }

  Result<UniqueFd> Fetch(std::string_view key, const fs::path& path) {
    const fs::path part = path.string() + std::string(kPartSuffix);
    XORBIT_ASSIGN_OR_RETURN(const ObjectInfo info, store_.Stat(key));
    XORBIT_RETURN_IF_ERROR(MakeRoom(info.byte_count));
    Status fetched = Copy(key, info.byte_count, part);
    if (fetched.ok()) fetched = Noted(ops_.Rename(part, path));
    if (!fetched.ok()) {
      static_cast<void>(ops_.Unlink(part));
      return fetched;
    }
    counts_->objects += 1;
    counts_->bytes += info.byte_count;
    return OpenForRead(path);
  }

  // A folder that is full, say, is left alone for a while: every try costs a fetch, or patience.
  Status Noted(Status written) {
    if (!written.ok()) rest_end_ = std::chrono::steady_clock::now() + kRest;
    return written;
  }

  Status Copy(std::string_view key, uint64_t byte_count, const fs::path& part) {
    const Result<UniqueFd> file = ops_.Create(part, /*exclusive=*/false);
    if (!file.ok()) return Noted(file.status());
    Buffer piece(std::min(kPieceBytes, byte_count));
    for (uint64_t at = 0; at < byte_count; at += piece.size()) {
      const MutableBytes bytes = MutableBytes(piece).first(std::min<uint64_t>(piece.size(), byte_count - at));
      XORBIT_RETURN_IF_ERROR(store_.ReadInto(key, at, bytes));
      XORBIT_RETURN_IF_ERROR(Noted(ops_.Pwrite(*file, bytes, at)));
    }
    return {};
  }

  // What a process that was killed while it fetched has left: nobody has its lock.
  void RemoveAbandoned(const fs::path& part) {
    const std::string path = part.string().substr(0, part.string().size() - kPartSuffix.size());
    Result<FileLock> lock = FileLock::TryAcquire(path + std::string(kLockSuffix));
    if (!lock.ok()) return;
    static_cast<void>(ops_.Unlink(part));
    static_cast<void>(lock->RemoveFile());
  }

  // Removes the oldest of ours. Who reads a removed file goes on reading it.
  Status MakeRoom(uint64_t byte_count) {
    if (byte_count > options_.limit_bytes) return RefusedError("larger than the cache of this host may be");
    struct Kept {
      fs::path path;
      uint64_t byte_count;
      int64_t made_ns;
    };
    std::vector<Kept> kept;
    uint64_t total = byte_count;
    std::error_code error;
    for (fs::directory_iterator at(folder_, error); !error && at != fs::directory_iterator(); at.increment(error)) {
      struct stat info {};
      if (::lstat(at->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
      const std::string name = at->path().filename().string();
      if (!name.starts_with(kPrefix) || name.ends_with(kLockSuffix)) continue;
      if (name.ends_with(kPartSuffix)) {
        RemoveAbandoned(at->path());
        continue;
      }
      const int64_t made_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
      kept.push_back({at->path(), static_cast<uint64_t>(info.st_size), made_ns});
      total += kept.back().byte_count;
    }
    std::ranges::sort(kept, {}, &Kept::made_ns);
    for (const Kept& file : kept) {
      if (total <= options_.limit_bytes) break;
      if (ops_.Unlink(file.path).ok()) total -= file.byte_count;
    }
    return {};
  }

  ObjectStore& store_;
  FileOps& ops_;
  fs::path folder_;
  HostCacheOptions options_;
  HostCacheCounts* counts_;
  std::atomic<std::chrono::steady_clock::time_point> rest_end_{};
};

}  // namespace

std::unique_ptr<ObjectStore> OpenHostCache(ObjectStore& store, FileOps& ops, const fs::path& folder, HostCacheOptions options,
                                           HostCacheCounts* counts) {
  return std::make_unique<HostCache>(store, ops, folder, std::move(options), counts);
}

}  // namespace xorbit
