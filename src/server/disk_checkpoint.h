// The checkpoint of a sampler on the disk, and which version it is. One rule makes that true: the version is proven from the
// bytes, under the checkpoint's lock, which is held as long as this lives. No other xorbit process can change it then; whoever
// does not know the lock is noticed by the files' times, and the bytes are read again.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "journey/store_journey.h"
#include "receive/file_target.h"

namespace xorbit {

struct DiskSource {
  fs::path checkpoint;
  fs::path store_root;    // a folder store, or the folder of weight_vNNNNNN folders
  std::string stream_id;  // empty: the store's only one
};

struct PulledDisk {
  uint64_t from = 0;
  uint64_t version = 0;
  uint64_t change_count = 0;
  uint64_t fetched_bytes = 0;  // of a stream
};

// One thread at a time, but for Newest() and version().
class DiskCheckpoint {
 public:
  // Takes the lock, takes back what a killed process has left half done, and proves the version. kRefused if another process
  // has the lock, if files are links, or if the checkpoint is no version. The store and what `runtime` points to outlive it.
  static Result<std::unique_ptr<DiskCheckpoint>> Open(const Runtime& runtime, ObjectStore& store, const DiskSource& source);

  // The version that it is now. Reads all bytes if they may have changed since they were last proven.
  Result<uint64_t> Prove();
  // kRefused if they may have: who has read them meanwhile has read no version.
  Status CheckUnchanged() const;
  // Brings it to a version, or the newest. After an error it is a version all the same, or version() says that nobody knows.
  // weight_v folders lead forward alone; `source_dir`, if it is named, must be the folder that they are in.
  Result<PulledDisk> Pull(std::optional<uint64_t> target, const std::optional<std::string>& source_dir);

  // As SamplerSession::CheckHeld and ProveHeld, of the version on the disk, which is one of a stream; and what they last said:
  // empty while it holds. From any thread.
  Status CheckHeld();
  Status ProveHeld();
  std::string rewritten() const;

  // The newest version that Pull could bring it to, whatever the checkpoint is. From any thread.
  Result<uint64_t> Newest();

  std::string source_name() const { return stream_ ? stream_->info().stream_id : source_.store_root.string(); }
  bool follows_stream() const { return stream_.has_value(); }
  // As last proven; nothing while nobody knows. From any thread.
  std::optional<uint64_t> version() const;

 private:
  DiskCheckpoint(const Runtime& runtime, ObjectStore& store, DiskSource source, FileTarget target)
      : runtime_(runtime), store_(store), source_(std::move(source)), target_(std::move(target)) {}
  struct Held {
    uint64_t version = 0;
    StateDigest state;  // of a stream's version
  };
  Result<Held> FindVersion(const Checkpoint& checkpoint);
  Result<PulledDisk> PullFolders(uint64_t from, std::optional<uint64_t> target, const std::optional<std::string>& source_dir);
  Result<PulledDisk> PullStream(uint64_t from, std::optional<uint64_t> target, const std::optional<std::string>& source_dir);
  Result<std::vector<FileStamp>> Stamp() const;
  Status NoteProven(uint64_t version, const StateDigest& state);
  void SetHeld(const std::optional<Held>& held);
  Status NoteHeld(const Held& held, const Status& status);
  std::optional<Held> held() const;

  const Runtime runtime_;
  ObjectStore& store_;
  const DiskSource source_;
  FileTarget target_;
  std::optional<Stream> stream_;   // none: weight_v folders
  std::vector<FileStamp> proven_;  // of the files when their version was proven
  mutable std::mutex mutex_;
  std::optional<Held> held_;  // guarded by mutex_, as rewritten_
  std::string rewritten_;
};

}  // namespace xorbit
