// A weight_vNNNNNN delta folder of Miles, slime or stitch, opened and proved against live weights before anything is replaced.
//
// The original readers XOR in place first and compare checksums afterwards, so a wrong base or a torn download leaves a damaged
// checkpoint. Here all tensors are verified first; only then are the changes handed out, for a target that can undo.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "change/change_source.h"
#include "interchange/miles_index.h"
#include "tensor/layout.h"

namespace xorbit {

// One changed tensor.
struct MilesEntry {
  uint32_t tensor_index = 0;  // in the checkpoint's layout
  ConstBytes bytes;           // one Zstd frame, untrusted
  std::string checksum;       // of the whole new tensor
};

enum class MilesState {
  kBase,         // applying gives the version
  kTarget,       // the checkpoint holds the version already, or the delta is empty
  kInterrupted,  // some tensors hold the version and others its base: another tool stopped halfway
  kNeither,      // at least one tensor is neither: another version, or damaged
};

// The same of one tensor. kUnchanged: it has the version's bytes, and applying gives them again.
enum class MilesTensorState { kUnchanged, kBase, kTarget, kNeither };

struct MilesVerdict {
  MilesState state = MilesState::kNeither;
  std::string tensor_name;  // kInterrupted: the first that holds the version; kNeither: the first that is neither
};

// Changes of one window of a tensor. Lent for the call.
struct TensorChanges {
  uint32_t tensor_index = 0;
  uint32_t unit_bytes = 0;
  uint64_t first_element = 0;             // of the window: position p is element first_element + p of the tensor
  const WindowChanges* window = nullptr;  // with olds; count is at least 1
};
using TensorChangesCallback = std::function<Status(const TensorChanges&)>;

// Immutable; safe to share between threads.
class MilesDelta {
 public:
  // Maps the files that the index names and no others. kNotFound without an index; otherwise as ParseMilesIndex, and kCorrupt
  // for files that disagree with the index in either direction, entries that are not flat U8, and missing checksums. kRefused
  // if the layout lacks a tensor. `layout` is only used here. Nothing is decompressed.
  static Result<MilesDelta> Open(const fs::path& folder, const Layout& layout);

  const MilesIndex& index() const { return index_; }
  const std::vector<MilesEntry>& entries() const { return entries_; }  // by tensor index
  uint64_t total_file_bytes() const { return total_file_bytes_; }      // all that a receiver fetches

  // Decodes every entry against the live bytes (`live`: all tensors, in layout order) and compares every checksum: success
  // means that the whole delta has been decoded once without an error, whatever the state. kCorrupt names the tensor. Memory is
  // bounded by threads x (the smaller of the tensor and 128 MiB). A tensor without an entry has no checksum: these folders
  // vouch only for what changes.
  Result<MilesVerdict> VerifyAgainst(std::span<const ConstBytes> live, int threads) const;

  // The same of the tensor of entries()[entry_index], which holds `live` now.
  Result<MilesTensorState> StateOf(size_t entry_index, ConstBytes live) const;

  // Hands out the changes of entries()[entry_index], whose tensor holds `live` now, in ascending order. Verify first. `scratch`
  // is reused from call to call. The first error of the callback ends it.
  Status ForEachChange(size_t entry_index, ConstBytes live, WindowChanges* scratch,
                       const TensorChangesCallback& callback) const;

 private:
  Status AddFile(const fs::path& folder, const std::string& file_name, const Layout& layout, std::vector<bool>* seen);
  Result<MilesTensorState> VerifyEntry(const MilesEntry& entry, ConstBytes live) const;
  MilesVerdict Judge(std::span<const MilesTensorState> states) const;

  MilesIndex index_;
  std::vector<MappedFile> files_;
  std::vector<MilesEntry> entries_;
  std::vector<std::string> names_;    // of the entries
  std::vector<uint32_t> unit_bytes_;  // of the entries
  uint64_t total_file_bytes_ = 0;
};

// True if `folder` has an index of this kind in it, be it a delta or a full version: what tells these folders from xorbit's
// own.
bool HasMilesIndex(const fs::path& folder);

}  // namespace xorbit
