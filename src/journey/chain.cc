// Opening chains of deltas, and finding a checkpoint's place in one.
#include "interchange/miles_delta.h"
#include "journey/journey.h"
#include "receive/journal_state.h"

namespace xorbit {

Result<std::vector<Delta>> OpenChain(const Runtime& runtime, const std::vector<fs::path>& folders) {
  const Stage stage(runtime.timers, "open + verify hashes");
  std::vector<Delta> chain;
  for (const fs::path& folder : folders) {
    auto opened = OpenDeltaFolder(folder, {.threads = runtime.threads, .verify_hashes = true});
    if (opened.status().code() == Code::kNotFound && HasMilesIndex(folder)) {
      return opened.status().WithContext("only apply takes weight_v folders");
    }
    XORBIT_ASSIGN_OR_RETURN(Delta delta, std::move(opened));
    if (!chain.empty()) {
      const Delta& before = chain.back();
      if (delta.layout.digest() != before.layout.digest()) {
        return RefusedError("'" + folder.string() + "' is for another layout than '" + before.folder.string() + "'");
      }
      if (delta.manifest.base != before.manifest.target) {
        return RefusedError("'" + folder.string() + "' does not start where '" + before.folder.string() +
                            "' ends; give the deltas of a chain in order");
      }
    }
    chain.push_back(std::move(delta));
  }
  if (chain.empty()) return UsageError("at least one delta is needed");
  return chain;
}

Result<bool> IsInterrupted(const fs::path& checkpoint) {
  XORBIT_ASSIGN_OR_RETURN(const JournalState journal, ReadJournalState(checkpoint));
  return journal == JournalState::kSealed;
}

Result<Checkpoint> OpenSettled(const fs::path& path) {
  XORBIT_ASSIGN_OR_RETURN(const bool interrupted, IsInterrupted(path));
  if (interrupted) {
    return RefusedError("'" + path.string() + "', or a file that it links to, was interrupted while it was changed; " +
                        "finish or undo that first with apply --in-place");
  }
  return Checkpoint::Open(path);
}

Result<StateReport> IdentifyState(const Runtime& runtime, const Checkpoint& checkpoint, const std::vector<Delta>& chain) {
  XORBIT_RETURN_IF_ERROR(RequireSameLayout(checkpoint.layout(), "the checkpoint", chain.front().layout, "the delta"));
  const Stage stage(runtime.timers, "scan");
  StateReport report;
  report.digest = runtime.backend->Scan(checkpoint.layout(), checkpoint.all_tensor_bytes(), ScanScope::kAll, runtime.threads);
  for (size_t i = 0; i <= chain.size(); ++i) {
    const StateDigest& state = i == 0 ? chain.front().manifest.base : chain[i - 1].manifest.target;
    if (report.digest != state) continue;
    report.position = ChainPosition::kOnChain;
    report.chain_index = i;
    break;
  }
  return report;
}

Result<StateReport> IdentifyState(const Runtime& runtime, const fs::path& checkpoint_path, const std::vector<Delta>& chain) {
  XORBIT_ASSIGN_OR_RETURN(const bool interrupted, IsInterrupted(checkpoint_path));
  if (interrupted) return StateReport{.position = ChainPosition::kInterrupted, .chain_index = 0, .digest = {}};
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(checkpoint_path));
  return IdentifyState(runtime, checkpoint, chain);
}

}  // namespace xorbit
