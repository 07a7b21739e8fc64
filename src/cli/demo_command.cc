// xorbit demo [--checkpoints DIR...]: the main job on this machine, from checkpoints to proof, in under a minute.
#include <fmt/core.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/staged_folder.h"
#include "base/stopwatch.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/demo_fleet.h"
#include "cli/demo_model.h"
#include "interchange/miles_index.h"
#include "journey/update_report.h"

namespace xorbit {
namespace {

struct DemoOptions {
  std::vector<std::string> checkpoints;
  std::string work;
  double megabytes = 200;
  bool keep = false;
};

// A folder for the demo's files, removed at the end unless the user named it or asked to keep it.
class WorkFolder {
 public:
  static Result<WorkFolder> Make(const DemoOptions& options) {
    WorkFolder folder;
    std::error_code error;
    const fs::path temporary = fs::temp_directory_path(error);
    if (!options.work.empty()) {
      folder.path_ = options.work;
      if (!fs::create_directory(folder.path_, error))
        return ExistsError("'" + options.work + "' must be a folder that does not exist yet");
      return folder;
    }
    if (error) return ErrnoError("cannot find a folder for temporary files; name one with --work", error.value());
    if (!options.keep) {
      XORBIT_ASSIGN_OR_RETURN(StagedFolder staged, StagedFolder::MakeScratch(PosixFileOps(), temporary / "xorbit-demo"));
      folder.path_ = staged.path();
      folder.staged_.emplace(std::move(staged));
      return folder;
    }
    std::string name = (temporary / "xorbit-demo-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) return IoError("cannot create a temporary folder; name one with --work");
    folder.path_ = name;
    return folder;
  }
  const fs::path& path() const { return path_; }

 private:
  WorkFolder() = default;
  fs::path path_;
  std::optional<StagedFolder> staged_;
};

struct StepRow {
  uint64_t change_count = 0;
  uint64_t element_count = 0;
  uint64_t delta_bytes = 0;  // payload and manifest
  uint64_t miles_bytes = 0;
  double entropy_bytes = 0;
  double diff_s = 0;
  double apply_s = 0;
};

// The demo as it runs: checkpoints in, rows and proofs out.
struct Demo {
  const Runtime* runtime = nullptr;
  fs::path folder;
  std::vector<fs::path> checkpoints;
  std::vector<fs::path> deltas;
  std::vector<StepRow> rows;
  StepRow folded;
  std::vector<std::string> proofs;
  FleetReport fleet;

  fs::path copy_a() const { return folder / "one-by-one"; }
  fs::path copy_b() const { return folder / "folded"; }
};

Status DiffSteps(Demo* demo) {
  for (size_t i = 1; i < demo->checkpoints.size(); ++i) {
    XORBIT_ASSIGN_OR_RETURN(const Checkpoint old_checkpoint, Checkpoint::Open(demo->checkpoints[i - 1]));
    XORBIT_ASSIGN_OR_RETURN(const Checkpoint new_checkpoint, Checkpoint::Open(demo->checkpoints[i]));
    StepRow row;
    const fs::path delta = demo->folder / fmt::format("delta-{}", i);
    const Stopwatch watch;
    XORBIT_ASSIGN_OR_RETURN(const DeltaSummary summary, MakeDelta(*demo->runtime, old_checkpoint, new_checkpoint, delta, {}));
    row.diff_s = watch.seconds();
    row.delta_bytes = summary.sent_bytes();
    XORBIT_ASSIGN_OR_RETURN(const UpdateReport update, MeasureUpdate(*demo->runtime, old_checkpoint, new_checkpoint, {}, {}));
    row.change_count = update.change_count;
    row.element_count = update.element_count;
    row.entropy_bytes = update.entropy_bits / 8;
    XORBIT_ASSIGN_OR_RETURN(const MilesWriteReport report, MakeMilesDelta(*demo->runtime, old_checkpoint, new_checkpoint,
                                                                          demo->folder / MilesFolderName(i), {}, {}));
    row.miles_bytes = report.total_file_bytes;
    demo->deltas.push_back(delta);
    demo->rows.push_back(row);
  }
  return {};
}

// Every delta, one after another, onto one copy: the first makes the copy, the others change it in place.
Status ApplyOneByOne(Demo* demo) {
  for (size_t i = 0; i < demo->deltas.size(); ++i) {
    const Stopwatch watch;
    const std::vector<fs::path> one = {demo->deltas[i]};
    const auto applied = i == 0
                             ? ApplyToCopy(*demo->runtime, demo->checkpoints.front(), one, demo->copy_a(), Direction::kForward)
                             : ApplyInPlace(*demo->runtime, demo->copy_a(), one, Direction::kForward);
    XORBIT_RETURN_IF_ERROR(applied.status());
    demo->rows[i].apply_s = watch.seconds();
  }
  return {};
}

Status ApplyFolded(Demo* demo) {
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint base, Checkpoint::Open(demo->checkpoints.front()));
  const fs::path delta = demo->folder / "delta-folded";
  const Stopwatch fold_watch;
  XORBIT_ASSIGN_OR_RETURN(const DeltaSummary summary, FoldDeltas(*demo->runtime, demo->deltas, delta, &base, {}));
  demo->folded.diff_s = fold_watch.seconds();
  demo->folded.delta_bytes = summary.sent_bytes();
  demo->folded.change_count = summary.manifest.change_count;
  demo->folded.element_count = demo->rows.front().element_count;
  const Stopwatch apply_watch;
  XORBIT_RETURN_IF_ERROR(
      ApplyToCopy(*demo->runtime, demo->checkpoints.front(), {delta}, demo->copy_b(), Direction::kForward).status());
  demo->folded.apply_s = apply_watch.seconds();
  return {};
}

// Runs what must be refused; the refusal is the proof, success would be the failure.
Status ExpectRefusal(Demo* demo, const std::string& what, const fs::path& checkpoint, const fs::path& delta) {
  const auto applied = ApplyToCopy(*demo->runtime, checkpoint, {delta}, demo->folder / "never", Direction::kForward);
  if (applied.ok() || fs::exists(demo->folder / "never")) return CorruptError(what + " was not refused");
  demo->proofs.push_back(fmt::format("{} is refused: {}", what, applied.status().message()));
  return {};
}

// The first checkpoint with one bit of one weight changed: a state that no delta starts from or leads to, which the other
// checkpoints may all be.
Result<fs::path> MakeStranger(Demo* demo) {
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(demo->checkpoints.front()));
  const fs::path folder = demo->folder / "stranger";
  XORBIT_RETURN_IF_ERROR(demo->runtime->file_ops->MakeFolder(folder));
  const auto has_weights = [](const CheckpointFile& file) { return file.map.bytes().size() > file.header_bytes; };
  const auto changed = std::ranges::find_if(checkpoint.files(), has_weights);
  for (const CheckpointFile& file : checkpoint.files()) {
    const fs::path copy = folder / file.path.filename();
    if (changed == checkpoint.files().end() || &file != &*changed) {
      std::error_code error;
      fs::create_symlink(fs::absolute(file.path), copy, error);
      if (error) return IoError("cannot link '" + copy.string() + "': " + error.message());
      continue;
    }
    Buffer bytes(file.map.bytes().begin(), file.map.bytes().end());
    bytes.back() ^= 1;
    XORBIT_RETURN_IF_ERROR(WriteWholeFile(*demo->runtime->file_ops, copy, bytes));
  }
  return folder;
}

Status RefuseBadInput(Demo* demo) {
  const fs::path corrupted = demo->folder / "delta-corrupted";
  std::error_code error;
  fs::copy(demo->deltas.front(), corrupted, fs::copy_options::recursive, error);
  if (error) return IoError("cannot copy a delta: " + error.message());
  for (const auto& entry : fs::directory_iterator(corrupted)) {
    if (entry.path().extension() != ".xob") continue;
    XORBIT_ASSIGN_OR_RETURN(Buffer bytes, ReadWholeFile(entry.path(), UINT64_MAX));
    bytes[bytes.size() / 2] ^= 0x10;
    XORBIT_RETURN_IF_ERROR(demo->runtime->file_ops->Unlink(entry.path()));
    XORBIT_RETURN_IF_ERROR(WriteWholeFile(*demo->runtime->file_ops, entry.path(), bytes));
  }
  XORBIT_RETURN_IF_ERROR(ExpectRefusal(demo, "one flipped bit in a delta", demo->checkpoints.front(), corrupted));
  XORBIT_ASSIGN_OR_RETURN(const fs::path stranger, MakeStranger(demo));
  return ExpectRefusal(demo, "a delta on the wrong base", stranger, demo->deltas.front());
}

Status ProveEqual(Demo* demo, const std::string& what, const fs::path& result) {
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint wanted, Checkpoint::Open(demo->checkpoints.back()));
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint got, Checkpoint::Open(result));
  if (got.files().size() != wanted.files().size()) return CorruptError(what + " has other files than the last checkpoint");
  uint64_t byte_count = 0;
  Sha256 hash;
  for (size_t i = 0; i < wanted.files().size(); ++i) {
    const ConstBytes a = wanted.files()[i].map.bytes();
    const ConstBytes b = got.files()[i].map.bytes();
    if (a.size() != b.size() || std::memcmp(a.data(), b.data(), a.size()) != 0) {
      return CorruptError(what + " differs from the last checkpoint");
    }
    hash.Update(b);
    byte_count += b.size();
  }
  demo->proofs.push_back(
      fmt::format("{}: all {} bytes equal the last checkpoint, SHA-256 {}", what, byte_count, ToHex(hash.Finish())));
  return {};
}

std::string RowText(const std::string& name, const StepRow& row) {
  const auto changes = static_cast<double>(row.change_count);
  const auto bytes = static_cast<double>(row.delta_bytes);
  const auto ratio = [](double value) { return value > 0 ? fmt::format("{:.3f}", value) : std::string("-"); };
  return fmt::format("{:<8} {:>9} {:>7.3f}% {:>9} {:>7.2f} {:>10} {:>9} {:>9} {:>9}\n", name, row.change_count,
                     100 * changes / static_cast<double>(row.element_count), HumanBytes(bytes),
                     BitsPerChange(bytes, row.change_count), ratio(row.entropy_bytes > 0 ? bytes / row.entropy_bytes : 0),
                     ratio(row.miles_bytes > 0 ? bytes / static_cast<double>(row.miles_bytes) : 0), HumanSeconds(row.diff_s),
                     HumanSeconds(row.apply_s));
}

Answer Report(const Demo& demo, uint64_t model_bytes, double total_s) {
  Answer answer;
  answer.text = fmt::format("{} checkpoints of {}\n\n{:<8} {:>9} {:>8} {:>9} {:>7} {:>10} {:>9} {:>9} {:>9}\n",
                            demo.checkpoints.size(), HumanBytes(static_cast<double>(model_bytes)), "step", "changed", "density",
                            "delta", "bits", "x entropy", "x Miles", "diff", "apply");
  Json rows = Json::array();
  const auto add = [&](const std::string& name, const StepRow& row) {
    answer.text += RowText(name, row);
    rows.push_back({{"step", name},
                    {"changed_elements", row.change_count},
                    {"delta_bytes", row.delta_bytes},
                    {"entropy_bytes", row.entropy_bytes},
                    {"miles_bytes", row.miles_bytes},
                    {"diff_s", row.diff_s},
                    {"apply_s", row.apply_s}});
  };
  for (size_t i = 0; i < demo.rows.size(); ++i) add(fmt::format("{} -> {}", i, i + 1), demo.rows[i]);
  add(fmt::format("0 -> {}", demo.rows.size()), demo.folded);
  answer.text += "(the last row is the fold of the others; its diff time is the folding)\n\n";
  for (const std::string& proof : demo.proofs) answer.text += "ok  " + proof + "\n";
  answer.text += "\n" + demo.fleet.text;
  for (const std::string& proof : demo.fleet.proofs) answer.text += "ok  " + proof + "\n";
  answer.text += fmt::format("\n{} in all\n", HumanSeconds(total_s));
  answer.fields = {
      {"model_bytes", model_bytes},        {"rows", rows},      {"proofs", demo.proofs}, {"fleet", demo.fleet.rows},
      {"fleet_proofs", demo.fleet.proofs}, {"total_s", total_s}};
  return answer;
}

Result<Answer> RunDemo(Session& session, const DemoOptions& options) {
  const Stopwatch watch;
  XORBIT_ASSIGN_OR_RETURN(const WorkFolder folder, WorkFolder::Make(options));
  Demo demo;
  demo.runtime = &session.runtime();
  demo.folder = folder.path();
  demo.checkpoints.assign(options.checkpoints.begin(), options.checkpoints.end());
  if (demo.checkpoints.size() == 1) return UsageError("--checkpoints needs at least two, in order");
  if (demo.checkpoints.empty()) {
    DemoModelOptions model;
    model.total_bytes = static_cast<uint64_t>(options.megabytes * 1e6);
    model.threads = session.runtime().threads;
    XORBIT_ASSIGN_OR_RETURN(demo.checkpoints,
                            WriteDemoRun(*session.runtime().file_ops, demo.folder, model, session.runtime().progress));
  }
  XORBIT_RETURN_IF_ERROR(DiffSteps(&demo));
  XORBIT_RETURN_IF_ERROR(ApplyOneByOne(&demo));
  XORBIT_RETURN_IF_ERROR(ApplyFolded(&demo));
  XORBIT_RETURN_IF_ERROR(RefuseBadInput(&demo));
  XORBIT_RETURN_IF_ERROR(ProveEqual(&demo, "step by step, in place", demo.copy_a()));
  XORBIT_RETURN_IF_ERROR(ProveEqual(&demo, "as one folded delta", demo.copy_b()));
  XORBIT_ASSIGN_OR_RETURN(demo.fleet, RunFleet(*demo.runtime, demo.folder / "store", demo.checkpoints));
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint last, Checkpoint::Open(demo.checkpoints.back()));
  return Report(demo, last.layout().total_bytes(), watch.seconds());
}

}  // namespace

void AddDemoCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<DemoOptions>();
  CLI::App* command = AddCommand(app, invocation, "demo", "Train a toy model, send its updates, prove the result",
                                 [options](Session& session) { return RunDemo(session, *options); });
  command->add_option("--checkpoints", options->checkpoints, "Use these checkpoints, in order, instead of the toy model");
  command->add_option("--work", options->work, "Folder to create and work in, kept (default: a temporary one, removed)");
  command->add_option("--megabytes", options->megabytes, "Size of the toy model (default 200)")->check(NumberBetween(1.0, 1e6));
  command->add_flag("--keep", options->keep, "Keep the temporary folder");
}

}  // namespace xorbit
