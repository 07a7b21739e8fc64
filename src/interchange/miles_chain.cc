#include "interchange/miles_chain.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <utility>

#include "base/parallel.h"
#include "base/text.h"

namespace xorbit {
namespace {

// What one delta does to a tensor.
struct TensorStep {
  size_t delta = 0;
  size_t entry = 0;
};

std::string NameOf(const fs::path& folder) { return Quoted(folder.string()); }

// Ascending.
Result<std::vector<uint64_t>> ListVersions(const fs::path& root) {
  std::vector<uint64_t> versions;
  std::error_code error;
  fs::directory_iterator entry(root, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::optional<uint64_t> version = MilesVersionNamed(entry->path().filename().string());
    if (version && HasMilesIndex(entry->path())) versions.push_back(*version);
  }
  if (error) return ErrnoError("cannot list " + NameOf(root), error.value());
  std::ranges::sort(versions);
  return versions;
}

Result<MilesDelta> OpenVersion(const fs::path& root, uint64_t version, const Layout& layout) {
  const fs::path folder = root / MilesFolderName(version);
  XORBIT_ASSIGN_OR_RETURN(MilesDelta delta, MilesDelta::Open(folder, layout));
  if (delta.index().version == version) return delta;
  return RefusedError(NameOf(folder) + " says that it is version " + std::to_string(delta.index().version) +
                      ": whoever published it mixed up its versions");
}

Status CheckFollows(const MilesDelta& delta, uint64_t before) {
  if (delta.index().base_version == before) return {};
  return RefusedError("folder " + MilesFolderName(delta.index().version) + " starts from version " +
                      std::to_string(delta.index().base_version) + ", but before it comes version " + std::to_string(before) +
                      ": one is missing, or belongs to another run");
}

Result<MilesIndex> ReadIndex(const fs::path& folder) {
  XORBIT_ASSIGN_OR_RETURN(const Buffer index, ReadWholeFile(folder / kMilesIndexFile, kMilesMaxIndexBytes));
  return ParseMilesIndex(AsText(index));
}

bool IsFullVersion(const fs::path& folder) { return ReadIndex(folder).status().code() == Code::kRefused; }

// Whether a tensor is as it was before the first step that changes it.
Result<bool> IsUntouched(const MilesDelta& delta, size_t entry, ConstBytes live) {
  XORBIT_ASSIGN_OR_RETURN(const MilesTensorState state, delta.StateOf(entry, live));
  // What an overwrite has written already it would write again: that proves the target, not the base.
  const bool is_idle = state == MilesTensorState::kUnchanged && delta.index().encoding == MilesEncoding::kXor;
  return state == MilesTensorState::kBase || is_idle;
}

// One more voice for every position at which this tensor is what it should be.
Status Vote(std::span<const MilesDelta> deltas, std::span<const TensorStep> steps, bool untouched, ConstBytes live,
            std::vector<std::atomic<uint64_t>>* voices) {
  const auto speak = [&](size_t first, size_t last) {
    for (size_t position = first; position <= last; ++position) (*voices)[position].fetch_add(1, std::memory_order_relaxed);
  };
  if (untouched) speak(0, steps.empty() ? deltas.size() : steps.front().delta);
  std::map<ChecksumFormat, std::string> checksums;
  for (size_t i = 0; i < steps.size(); ++i) {
    const MilesDelta& delta = deltas[steps[i].delta];
    std::string& checksum = checksums[delta.index().checksum_format];
    if (checksum.empty()) {
      WeightChecksum sum(delta.index().checksum_format);
      sum.Update(live);
      checksum = sum.Text();
    }
    const size_t last = i + 1 < steps.size() ? steps[i + 1].delta : deltas.size();
    if (delta.entries()[steps[i].entry].checksum == checksum) speak(steps[i].delta + 1, last);
  }
  return {};
}

}  // namespace

Result<std::optional<size_t>> FindPosition(std::span<const MilesDelta> deltas, const Checkpoint* full,
                                           std::span<const ConstBytes> live, int threads) {
  std::map<uint32_t, std::vector<TensorStep>> steps;
  for (uint32_t i = 0; full != nullptr && i < live.size(); ++i) steps[i];  // all of them have a say
  for (size_t d = 0; d < deltas.size(); ++d) {
    for (size_t e = 0; e < deltas[d].entries().size(); ++e) steps[deltas[d].entries()[e].tensor_index].push_back({d, e});
  }
  const std::vector<std::pair<uint32_t, std::vector<TensorStep>>> voters(steps.begin(), steps.end());
  std::vector<std::atomic<uint64_t>> voices(deltas.size() + 1);
  XORBIT_RETURN_IF_ERROR(ParallelFor(threads, voters.size(), [&](uint64_t i) -> Status {
    const auto& [tensor_index, changes] = voters[i];
    const ConstBytes bytes = live[tensor_index];
    bool untouched = full != nullptr && std::ranges::equal(full->tensor_bytes(tensor_index), bytes);
    if (full == nullptr) {
      XORBIT_ASSIGN_OR_RETURN(untouched, IsUntouched(deltas[changes.front().delta], changes.front().entry, bytes));
    }
    return Vote(deltas, changes, untouched, bytes, &voices);
  }));
  for (size_t position = voices.size(); position-- > 0;) {
    if (voices[position] == voters.size()) return std::optional(position);
  }
  return std::optional<size_t>();
}

Result<MilesChain> MilesChain::Open(const fs::path& root, const Layout& layout) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> versions, ListVersions(root));
  MilesChain chain;
  size_t count = versions.size();  // how many are not looked at yet, the oldest ones
  for (; count > 0; --count) {
    const fs::path folder = root / MilesFolderName(versions[count - 1]);
    if (IsFullVersion(folder)) break;
    Result<MilesDelta> delta = OpenVersion(root, versions[count - 1], layout);
    if (!delta.ok() && count == versions.size() && delta.status().code() != Code::kRefused) {
      XORBIT_RETURN_IF_ERROR(chain.LeaveOut(folder, layout, delta.status()));
      continue;
    }
    if (!delta.ok()) return delta.status();
    chain.deltas_.push_back(std::move(*delta));
  }
  std::ranges::reverse(chain.deltas_);
  if (count > 0) {
    const fs::path folder = root / MilesFolderName(versions[count - 1]);
    XORBIT_ASSIGN_OR_RETURN(chain.full_, Checkpoint::Open(folder));
    XORBIT_RETURN_IF_ERROR(RequireSameLayout(chain.full_->layout(), NameOf(folder), layout, "the checkpoint"));
    chain.first_version_ = versions[count - 1];
  } else if (!chain.deltas_.empty()) {
    chain.first_version_ = chain.deltas_.front().index().base_version;
  }
  uint64_t before = chain.first_version_;
  for (const MilesDelta& delta : chain.deltas_) {
    XORBIT_RETURN_IF_ERROR(CheckFollows(delta, before));
    before = delta.index().version;
  }
  return chain;
}

// Its index alone says which tensors it changes; without that nothing is known of any tensor.
Status MilesChain::LeaveOut(const fs::path& folder, const Layout& layout, const Status& why) {
  const Result<MilesIndex> index = ReadIndex(folder);
  if (!index.ok()) return why;
  for (const auto& [name, file_name] : index->weight_map) {
    const std::optional<uint32_t> tensor_index = layout.Find(name);
    if (!tensor_index) return why;
    in_doubt_.push_back(*tensor_index);
  }
  unread_ = why;
  return {};
}

// Whether some folder that can be read speaks of the tensor.
bool MilesChain::IsSpokenOf(uint32_t tensor_index) const {
  const auto changes_it = [&](const MilesDelta& delta) {
    return std::ranges::any_of(delta.entries(), [&](const MilesEntry& entry) { return entry.tensor_index == tensor_index; });
  };
  return full_.has_value() || std::ranges::any_of(deltas_, changes_it);
}

Result<std::optional<uint64_t>> MilesChain::VersionOf(std::span<const ConstBytes> live, int threads) const {
  XORBIT_ASSIGN_OR_RETURN(const std::optional<size_t> position,
                          FindPosition(deltas_, full_ ? &*full_ : nullptr, live, threads));
  const bool is_certain = position && std::ranges::all_of(in_doubt_, [&](uint32_t tensor) { return IsSpokenOf(tensor); });
  if (!is_certain && !unread_.ok()) return unread_;
  if (!position) return std::optional<uint64_t>();
  return std::optional(*position == 0 ? first_version_ : deltas_[*position - 1].index().version);
}

Result<uint64_t> NewestMilesVersion(const fs::path& root) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> versions, ListVersions(root));
  return versions.empty() ? uint64_t{0} : versions.back();
}

Result<std::vector<MilesStep>> FindMilesWay(const fs::path& root, const Layout& layout, uint64_t from,
                                            std::optional<uint64_t> target) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> versions, ListVersions(root));
  if (!target) target = std::max(from, versions.empty() ? from : versions.back());
  std::vector<MilesStep> way;
  uint64_t before = from;
  for (const uint64_t version : versions) {
    if (version <= from || version > *target) continue;
    XORBIT_ASSIGN_OR_RETURN(const MilesDelta delta, OpenVersion(root, version, layout));
    XORBIT_RETURN_IF_ERROR(CheckFollows(delta, before));
    way.push_back({version, root / MilesFolderName(version)});
    before = version;
  }
  if (before == *target) return way;
  return NotFoundError(NameOf(root) + " has no folder " + MilesFolderName(*target) + " with an index: it is not published yet");
}

}  // namespace xorbit
