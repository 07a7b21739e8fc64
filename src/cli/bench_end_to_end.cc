#include "cli/bench_end_to_end.h"

#include <array>

#include "base/staged_folder.h"
#include "cli/end_to_end_report.h"
#include "cli/end_to_end_run.h"
#include "cli/ranks_processes.h"

namespace xorbit {
namespace {

constexpr uint32_t kMostParts = 64;
constexpr std::array kProcesses = {&RunFarEnd, &RunNearEnd, &RunEndToEndTrainer, &RunEndToEndSampler};

Status CheckNumbers(const EndToEndBenchOptions& options) {
  if (options.parts < 1 || options.parts > kMostParts) {
    return UsageError("--parts must be from 1 to " + std::to_string(kMostParts));
  }
  if (options.rounds + 1 >= kMostVersions) {
    return UsageError("--rounds must be less than " + std::to_string(kMostVersions - 1) + " with --end-to-end");
  }
  return {};
}

// In memory if there is any: a real store would be a service, not this machine's disk.
fs::path ScratchPlace(const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  std::error_code error;
  return fs::is_directory("/dev/shm", error) ? fs::path("/dev/shm") : fs::temp_directory_path(error);
}

std::string BackendName(const EndToEndBenchOptions& options) {
  std::string name = options.on_device ? "cuda" : "cpu";
  if (!options.decoder.empty()) name += "/" + options.decoder.substr(0, options.decoder.find(':'));
  return options.serving ? name + "/serving" : name;
}

Result<MarkLog> ReadMarks(const fs::path& folder) {
  MarkLog log;
  for (const char* name : {"trainer", "link", "sampler"}) {
    XORBIT_ASSIGN_OR_RETURN(const MarkLog marks, MarkLog::Read(folder / name));
    log.Merge(marks);
  }
  return log;
}

}  // namespace

void AddEndToEndBenchOptions(CLI::App* command, EndToEndBenchOptions* options) {
  CLI::Option* end_to_end =
      command->add_flag("--end-to-end", options->is_wanted,
                        "Measure from a step's end to resumed samplers, one share of --gigabytes, over a store and a link");
  command->add_option("--gbps", options->gbps, "With --end-to-end: rate of the link for 445 GB, in Gb/s (default 100)")
      ->needs(end_to_end)
      ->check(NumberBetween(0.001, 1e5));
  command->add_option("--rtt-ms", options->rtt_ms, "With --end-to-end: the link's round trip, in ms (default 1)")
      ->needs(end_to_end)
      ->check(NumberBetween(0, 1e5));
  command->add_option("--parts", options->parts, "With --end-to-end: trainers' GPUs for a sampler's GPU (default 16)")
      ->needs(end_to_end);
  command
      ->add_flag(
          "--serving", options->serving,
          "With --end-to-end and cuda: prepare as slowly as beside an engine that decodes (default: with all of the GPU)")
      ->needs(end_to_end);
  command
      ->add_option(
          "--decoder", options->decoder,
          "With --end-to-end, cuda and a mask codec: engine, kernels, cpu or nvcomp:FOLDER (default: by what is there)")
      ->needs(end_to_end);
  command
      ->add_flag("--keep-state", options->keeps_state,
                 "With --end-to-end: an update leaves its slots and staging memory to the next (default: given back)")
      ->needs(end_to_end);
  command
      ->add_flag("--no-payload-hash", options->skips_payload_hash,
                 "With --end-to-end: do not compare the hashes of inner frames; lengths and digests are compared")
      ->needs(end_to_end);
  command->add_option("--trace", options->trace, "With --end-to-end: a file for a Chrome trace, as Perfetto shows it")
      ->needs(end_to_end);
}

Result<Answer> RunEndToEndBench(const EndToEndBenchOptions& options) {
  XORBIT_RETURN_IF_ERROR(CheckNumbers(options));
  EndToEndRun run;
  run.owner_count = options.parts;
  run.on_device = options.on_device;
  run.round_count = options.rounds;
  run.serving = options.serving;
  run.decoder = options.decoder;
  run.keeps_state = options.keeps_state;
  run.validates_payload_hash = !options.skips_payload_hash;
  run.wants_spans = !options.trace.empty();
  XORBIT_ASSIGN_OR_RETURN(const auto codec, (CodecOptions{.codec = options.codec}.Find()));
  run.codec = *codec;
  XORBIT_ASSIGN_OR_RETURN(run.model,
                          MakeEndToEndModel(static_cast<uint64_t>(options.gigabytes * 1e9), options.workload, options.parts));
  const EndToEndSetting setting{BackendName(options), options.codec, options.workload, run.model.byte_count(),
                                options.parts,        options.gbps,  options.rtt_ms};
  const auto delay = std::chrono::nanoseconds(static_cast<int64_t>(options.rtt_ms * 1e6 / 2));
  XORBIT_ASSIGN_OR_RETURN(const ShapedLink link, ShapedLink::Make({setting.share_gbps(), delay}));
  run.link = &link;

  FileOps& ops = PosixFileOps();
  XORBIT_ASSIGN_OR_RETURN(const StagedFolder scratch,
                          StagedFolder::MakeScratch(ops, ScratchPlace(options.scratch) / "xorbit-end-to-end"));
  run.near_store = scratch.path() / "trainers";
  run.far_store = scratch.path() / "samplers";
  run.marks = scratch.path() / "marks";
  for (const fs::path& folder : {run.near_store, run.far_store, run.marks}) XORBIT_RETURN_IF_ERROR(ops.MakeFolder(folder));
  XORBIT_ASSIGN_OR_RETURN(const std::unique_ptr<SharedBoard> board, SharedBoard::Make());
  run.board = board->get();
  XORBIT_RETURN_IF_ERROR(
      RunProcesses(run.board, kProcesses.size(), 0, [&](uint32_t index, uint32_t /*life*/) { return kProcesses[index](run); }));

  XORBIT_ASSIGN_OR_RETURN(const MarkLog log, ReadMarks(run.marks));
  XORBIT_ASSIGN_OR_RETURN(const EndToEndReport report, ReportOf(setting, log));
  if (report.wrong_bytes > 0) return CorruptError(std::to_string(report.wrong_bytes) + " bytes of live memory are wrong");
  if (!options.csv.empty()) XORBIT_RETURN_IF_ERROR(WriteWholeFile(ops, options.csv, AsBytes(CsvOf(report))));
  if (!options.trace.empty()) {
    XORBIT_ASSIGN_OR_RETURN(const std::string trace, TraceOf(log));
    XORBIT_RETURN_IF_ERROR(WriteWholeFile(ops, options.trace, AsBytes(trace)));
  }
  return Answer{FieldsOf(report), TableOf(report), 0};
}

}  // namespace xorbit
