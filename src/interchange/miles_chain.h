// The weight_vNNNNNN folders of one run as a chain of versions, and where on it a checkpoint stands.
//
// A folder vouches for the tensors that it changes and for no others. So no single folder says which version a checkpoint is:
// the newest may change one tensor, and one before it, never applied, another. Here every tensor that any folder changes has a
// say.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "interchange/miles_delta.h"
#include "tensor/checkpoint.h"

namespace xorbit {

// How many of `deltas`, each from where the one before ends, `live` (all tensors, in layout order) has in it: every tensor is
// what the newest of those that change it has left, and where none of those does, what the first that changes it starts from.
// With `full`, where the first delta starts, such tensors must equal that instead, and those that no delta changes too. The
// largest such number; nothing if there is none. Tensors that nothing speaks of are taken on trust. Errors as of
// MilesDelta::StateOf.
Result<std::optional<size_t>> FindPosition(std::span<const MilesDelta> deltas, const Checkpoint* full,
                                           std::span<const ConstBytes> live, int threads);

// Immutable; safe to share between threads.
class MilesChain {
 public:
  // The deltas below `root`, after the newest full version if there is one; folders without an index are not published yet, and
  // the newest may have files that cannot be read yet, or any more. kRefused if a folder's index names another version than the
  // folder, or does not start from the version before; otherwise as MilesDelta::Open and Checkpoint::Open, of the first folder
  // that cannot be read.
  static Result<MilesChain> Open(const fs::path& root, const Layout& layout);

  // The version that `live` is, by FindPosition; 0 for any bytes if there are no folders. If the newest folder cannot be read,
  // its error where that leaves a doubt: it changes a tensor of which no other folder speaks, or none of the others fits.
  Result<std::optional<uint64_t>> VersionOf(std::span<const ConstBytes> live, int threads) const;

 private:
  Status LeaveOut(const fs::path& folder, const Layout& layout, const Status& why);
  bool IsSpokenOf(uint32_t tensor_index) const;

  std::optional<Checkpoint> full_;
  uint64_t first_version_ = 0;  // where the first delta starts
  std::vector<MilesDelta> deltas_;
  Status unread_;                   // why the newest folder cannot be read
  std::vector<uint32_t> in_doubt_;  // the tensors that it changes
};

struct MilesStep {
  uint64_t version = 0;  // that it leads to
  fs::path folder;
};

// The newest version that has a folder with an index below `root`; 0 if there is none.
Result<uint64_t> NewestMilesVersion(const fs::path& root);

// The folders below `root` that lead from a version to a later one, or to the newest, each of them opened and found to start
// where the one before ends. kNotFound if the target has none; kRefused if the way is broken; otherwise as MilesDelta::Open.
Result<std::vector<MilesStep>> FindMilesWay(const fs::path& root, const Layout& layout, uint64_t from,
                                            std::optional<uint64_t> target);

}  // namespace xorbit
