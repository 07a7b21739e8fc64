#include "cli/bench_ranks.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "backend/cuda/testing/dense_rivals.h"
#include "base/staged_folder.h"
#include "cli/ranks_processes.h"
#include "cli/ranks_report.h"
#include "cli/ranks_run.h"

namespace xorbit {
namespace {

constexpr uint64_t kMostChangeBytes = 3;  // of a BF16 change in a payload, with room to spare

// CUDA is called in processes of their own alone, for what is forked off after it could not use it.
Result<uint32_t> UsableDevices(const std::string& wanted, Board* board) {
  XORBIT_RETURN_IF_ERROR(RunProcesses(board, 1, 0, [&](uint32_t /*index*/, uint32_t /*life*/) -> Status {
    XORBIT_ASSIGN_OR_RETURN(board->device_count, CountDevices());
    return {};
  }));
  const auto there = static_cast<uint32_t>(board->device_count);
  if (wanted == "all") return there;
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), count);
  if (error != std::errc() || end != wanted.data() + wanted.size() || count == 0 || count > there) {
    return UsageError("--devices must be all, or a number from 1 to the " + std::to_string(there) + " GPUs of this machine");
  }
  return count;
}

Status MeasureRivals(const RanksRun& run, const RanksBenchOptions& options) {
  return RunProcesses(run.board, 1, 0, [&](uint32_t /*index*/, uint32_t /*life*/) -> Status {
    const uint64_t ranks_a_device = (run.sampler_count() + run.device_count - 1) / run.device_count;
    XORBIT_ASSIGN_OR_RETURN(const std::vector<DenseRow> rows,
                            MeasureDense(static_cast<int>(run.device_count), run.board->samplers[0].byte_count * ranks_a_device,
                                         static_cast<int>(run.round_count), options.nccl));
    for (size_t i = 0; i < rows.size(); ++i) {
      RivalSlot& slot = run.board->rivals[i];
      PutText(rows[i].name, slot.name.data(), slot.name.size());
      PutText(rows[i].note, slot.note.data(), slot.note.size());
      slot.run_count = static_cast<uint32_t>(std::min<size_t>(rows[i].times_ms.size(), slot.times_ms.size()));
      std::copy_n(rows[i].times_ms.begin(), slot.run_count, slot.times_ms.begin());
      slot.byte_count = rows[i].byte_count;
    }
    return {};
  });
}

// In memory if there is room for what the run stores: twice all payloads, at the store and at the host.
fs::path ScratchPlace(const RanksRun& run, const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  const uint64_t need = 2 * run.newest() * (run.model.change_count() * kMostChangeBytes + (uint64_t{4} << 20));
  std::error_code error;
  const fs::space_info memory = fs::space("/dev/shm", error);
  return !error && memory.available > need ? fs::path("/dev/shm") : fs::temp_directory_path(error);
}

Status CheckNumbers(const RanksBenchOptions& options) {
  const auto in_range = [](uint32_t count) { return count >= 1 && count <= kMostRanks; };
  if (!in_range(options.ranks) || !in_range(options.trainers) || !in_range(options.engines) ||
      !in_range(options.engines * options.ranks)) {
    return UsageError("--trainers, and --ranks times --engines, must be from 1 to " + std::to_string(kMostRanks));
  }
  if (options.rounds + kDeaths.size() >= kMostVersions) {
    return UsageError("--rounds must be less than " + std::to_string(kMostVersions - kDeaths.size()) + " with --ranks");
  }
  if (options.kills && options.ranks < 2) return UsageError("--kills needs at least two --ranks");
  if (options.gigabytes * options.ranks > 1e5) {
    return UsageError("--gigabytes times --ranks must be at most 100000");
  }
  return {};
}

Status WriteCsv(const RanksRun& run, const RanksReport& report, const std::string& path) {
  std::error_code error;
  const bool is_new = !fs::exists(path, error);
  std::string text;
  if (!is_new) {
    constexpr uint64_t kMostBytes = uint64_t{16} << 20;
    XORBIT_ASSIGN_OR_RETURN(const Buffer before, ReadWholeFile(path, kMostBytes));
    text.assign(before.begin(), before.end());
    XORBIT_RETURN_IF_ERROR(PosixFileOps().Unlink(path));
  }
  text += CsvOf(run, report, is_new);
  return WriteWholeFile(PosixFileOps(), path, AsBytes(text));
}

}  // namespace

void AddRanksBenchOptions(CLI::App* command, RanksBenchOptions* options) {
  CLI::Option* ranks = command->add_option(
      "--ranks", options->ranks,
      "Sampler ranks that change together, each a process with --gigabytes of weights (default: none, measure "
      "codecs or one GPU)");
  command->add_option("--engines", options->engines, "With --ranks: engines of so many ranks on this host (default 1)")
      ->needs(ranks);
  command->add_option("--trainers", options->trainers, "With --ranks: trainer ranks, each a process that owns its part")
      ->needs(ranks);
  command->add_option("--devices", options->devices, "With --ranks and cuda: all (default), or how many GPUs to spread over")
      ->needs(ranks);
  command->add_flag("--kills", options->kills, "With --ranks: then kill a rank at three points of an update")->needs(ranks);
  command->add_option("--nccl", options->nccl, "With --ranks: a folder with libnccl.so.2")->needs(ranks);
  command->add_option("--scratch", options->scratch, "With --ranks: a folder for the store (default: in memory if it fits)");
}

Result<Answer> RunRanksBench(const RanksBenchOptions& options) {
  XORBIT_RETURN_IF_ERROR(CheckNumbers(options));
  XORBIT_ASSIGN_OR_RETURN(const std::unique_ptr<SharedBoard> board, SharedBoard::Make());
  RanksRun run;
  run.board = board->get();
  run.engine_count = options.engines;
  run.rank_count = options.ranks;
  run.trainer_count = options.trainers;
  run.on_devices = options.on_devices;
  run.round_count = options.rounds;
  run.with_kills = options.kills;
  if (options.on_devices) {
    XORBIT_ASSIGN_OR_RETURN(run.device_count, UsableDevices(options.devices, run.board));
  }
  const auto byte_count = static_cast<uint64_t>(options.gigabytes * 1e9 * options.ranks);
  XORBIT_ASSIGN_OR_RETURN(run.model, MakeRanksModel(byte_count, options.percent));
  // What cannot be cut so is the user's error, and not a process's.
  XORBIT_RETURN_IF_ERROR(SamplerMap(run.model, 0, run.rank_count).status());
  XORBIT_RETURN_IF_ERROR(TrainerPlan(run.model, 0, run.trainer_count).status());

  FileOps& ops = PosixFileOps();
  XORBIT_ASSIGN_OR_RETURN(const StagedFolder scratch,
                          StagedFolder::MakeScratch(ops, ScratchPlace(run, options.scratch) / "xorbit-ranks"));
  run.store = scratch.path() / "store";
  run.cache = scratch.path() / "cache";
  XORBIT_RETURN_IF_ERROR(ops.MakeFolder(run.store));
  XORBIT_RETURN_IF_ERROR(ops.MakeFolder(run.cache));
  // The engines stand still while ranks meet.
  std::error_code ignored;
  const fs::path memory = fs::is_directory("/dev/shm", ignored) ? fs::path("/dev/shm") : scratch.path();
  XORBIT_ASSIGN_OR_RETURN(const StagedFolder meeting, StagedFolder::MakeScratch(ops, memory / "xorbit-ranks-meeting"));
  run.meeting_place = meeting.path();

  XORBIT_RETURN_IF_ERROR(
      RunProcesses(run.board, run.trainer_count, 0, [&](uint32_t rank, uint32_t /*life*/) { return RunTrainer(run, rank); }));
  const uint32_t most_deaths = run.with_kills ? static_cast<uint32_t>(kDeaths.size()) : 0;
  XORBIT_RETURN_IF_ERROR(RunProcesses(run.board, run.sampler_count(), most_deaths,
                                      [&](uint32_t index, uint32_t life) { return RunSampler(run, index, life); }));
  if (run.on_devices) XORBIT_RETURN_IF_ERROR(MeasureRivals(run, options));
  XORBIT_ASSIGN_OR_RETURN(const RanksReport report, ReportOf(run));
  if (report.wrong_bytes > 0)
    return CorruptError(std::to_string(report.wrong_bytes) + " bytes of the ranks' weights are wrong");
  if (!report.digests_equal) return CorruptError("the ranks' digests do not add up to the newest version's");
  if (!options.csv.empty()) XORBIT_RETURN_IF_ERROR(WriteCsv(run, report, options.csv));
  return Answer{FieldsOf(run, report), TableOf(run, report), 0};
}

}  // namespace xorbit
