// A FileOps for crash tests: does every mutation for real, remembers it, can fail or "kill" at any call, and can build what a
// power cut would have left on disk.
//
// The model of the disk is the hostile end of what POSIX allows. Until fsync of a file, every piece of every write to it (4
// KiB, or a sector of 512 bytes) is on disk or not, independently, and so is its new size; until fsync of a folder, every
// creation, rename and removal in it is on disk or not, independently. Even a rename may survive whose creation was lost.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"

namespace xorbit {

// Calls are thread-safe: they take turns. All paths lie below the root; files that the root holds at construction count as on
// disk.
class RecordingFileOps final : public FileOps {
 public:
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  explicit RecordingFileOps(fs::path root);

  // Calls from `first` (counted from 0) up to `last` fail with kIo; a failing write leaves half of its bytes. With last =
  // kNever that is a process killed at `first`: nothing that it still tries has any effect.
  void FailCalls(uint64_t first, uint64_t last);
  // At this call the process sends itself SIGKILL, a write after half of its bytes.
  void DieAtCall(uint64_t call);
  uint64_t call_count() const { return call_count_; }

  // Builds in `folder`, which must not exist, what a power cut during call `cut` may have left.
  void BuildAfterPowerCut(uint64_t cut, std::mt19937_64& random, const fs::path& folder) const;

  Result<UniqueFd> Create(const fs::path& path, bool exclusive) override;
  Result<UniqueFd> OpenForWrite(const fs::path& path) override;
  Status Pwrite(const UniqueFd& fd, ConstBytes bytes, uint64_t offset_bytes) override;
  Status Truncate(const UniqueFd& fd, uint64_t byte_count) override;
  Status CopyContents(const UniqueFd& source, const UniqueFd& target, uint64_t byte_count) override;
  void StartWriteBack(const UniqueFd& /*fd*/, uint64_t /*offset_bytes*/, uint64_t /*byte_count*/) override {}  // a hint
  Status Sync(const UniqueFd& fd) override;
  Status SyncFolder(const fs::path& folder) override;
  Status MakeFolder(const fs::path& folder) override;
  Status Rename(const fs::path& from, const fs::path& to) override;
  Status RenameNoReplace(const fs::path& from, const fs::path& to) override;
  Status Link(const fs::path& from, const fs::path& to) override;
  Status Unlink(const fs::path& path) override;

 private:
  using Node = size_t;  // index into nodes_: a file's or folder's identity, whatever its names
  static constexpr Node kNoNode = std::numeric_limits<Node>::max();

  struct DataChange {  // bytes at offset, or a new size if there are none
    Node node;
    uint64_t offset;
    Buffer bytes;
    uint64_t call;
    uint64_t durable_call = kNever;
  };
  struct NameChange {                                   // `name` now means `node`, or nothing
    std::vector<std::pair<std::string, Node>> entries;  // on disk together or not at all
    std::string folder;
    uint64_t call;
    uint64_t durable_call = kNever;
  };
  struct NodeState {
    bool is_folder = false;
    Buffer bytes;  // on disk at construction
  };

  Status NextCall();  // counts it; its error, if it is to fail
  Status Count();     // the same, and dies if it is to die
  std::string NameOf(const fs::path& path) const;
  void RecordName(std::vector<std::pair<std::string, Node>> entries);
  std::map<std::string, Node> NamesAfter(uint64_t cut, std::mt19937_64& random, double kept) const;
  std::vector<Buffer> BytesAfter(uint64_t cut, std::mt19937_64& random, double kept) const;

  const fs::path root_;
  std::mutex mutex_;  // of calls: guards everything below while they run
  uint64_t call_count_ = 0;
  uint64_t fail_first_ = kNever;
  uint64_t fail_last_ = 0;
  bool dies_ = false;  // instead of failing
  std::vector<NodeState> nodes_;
  std::map<std::string, Node> durable_names_;  // at construction
  std::map<std::string, Node> names_;          // now
  std::map<int, Node> open_;
  std::vector<DataChange> data_changes_;
  std::vector<NameChange> name_changes_;
};

}  // namespace xorbit
