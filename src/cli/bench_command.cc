// xorbit bench: the reference workload at a chosen scale, every codec in one table, with yardsticks of the same run.
//
// Everything is measured in memory on prefaulted buffers and reported as the median of several rounds; the file-level rivals
// (Miles format, zstd --patch-from, xdelta3, int32 index + value) are measured by bench/run_rivals.py, which runs this program.
#include <fmt/core.h>

#include "base/cpu_level.h"
#include "base/stopwatch.h"
#include "change/change_statistics.h"
#include "cli/bench_cuda.h"
#include "cli/bench_end_to_end.h"
#include "cli/bench_modes.h"
#include "cli/bench_ranks.h"
#include "cli/bench_workload.h"
#include "cli/bench_yardsticks.h"
#include "cli/command.h"
#include "journey/update_report.h"

namespace xorbit {
namespace {

struct BenchOptions {
  std::vector<std::string> workloads = {"reference-bit", "reference-fp4", "reference-random"};
  std::vector<std::string> codecs;
  double gigabytes = 1;
  int rounds = 0;  // 0: 5, or 20 on a GPU
  std::string backend = "cpu";
  CudaBenchOptions cuda;
  RanksBenchOptions ranks;
  EndToEndBenchOptions end_to_end;
};

constexpr double kReferenceModelBytes = 445e9;

// One codec on one workload. Seconds are medians.
struct Row {
  std::string codec;
  uint64_t payload_bytes = 0;
  double encode_s = 0;     // diff + encode + hash: old and new bytes in, payload out
  double preflight_s = 0;  // decode + validate + compare digests, nothing written
  double apply_s = 0;      // decode + XOR + check
  std::string result_digest;
};

Result<Buffer> EncodeOnce(const Runtime& runtime, const Workload& workload, CodecId codec) {
  XORBIT_ASSIGN_OR_RETURN(auto owners, PlanOwners(workload.layout, 1, Split::kWhole));
  EncodeOptions options;
  options.threads = runtime.threads;
  XORBIT_ASSIGN_OR_RETURN(
      EncodedOwner owner,
      runtime.backend->EncodeDiff(workload.layout, owners.front(),
                                  {.bytes = InTensors(owners.front(), workload.TensorsOf(workload.old_state))},
                                  InTensors(owners.front(), workload.TensorsOf(workload.new_state)), codec, options));
  XORBIT_ASSIGN_OR_RETURN(const Payload payload, WritePayload(workload.layout, {codec, 0, 1}, owners.front(),
                                                              std::move(owner.segments), runtime.threads));
  return FileBytesOf(payload);
}

Result<Row> MeasureCodec(const Runtime& runtime, const Workload& workload, const Codec& codec, int rounds, Buffer* live) {
  Row row;
  row.codec = codec.name();
  const LiveMap map = CanonicalMap(workload.layout);
  std::vector<double> encode_s;
  std::vector<double> preflight_s;
  std::vector<double> apply_s;
  Buffer file;
  for (int round = 0; round < rounds; ++round) {
    const Stopwatch encode_watch;
    XORBIT_ASSIGN_OR_RETURN(file, EncodeOnce(runtime, workload, codec.id()));
    encode_s.push_back(encode_watch.seconds());
    XORBIT_ASSIGN_OR_RETURN(const PayloadView view, ParsePayload(workload.layout, file));
    *live = workload.old_state;
    const std::vector<MutableBytes> tensors = workload.TensorsOf(*live);
    const LiveMemory memory{&map, tensors, {}};
    const Stopwatch preflight_watch;
    XORBIT_ASSIGN_OR_RETURN(const std::unique_ptr<PreparedUpdate> update,
                            runtime.backend->Prepare(workload.layout, {&view, 1}, memory, {.threads = runtime.threads}));
    preflight_s.push_back(preflight_watch.seconds());
    const Stopwatch apply_watch;
    XORBIT_RETURN_IF_ERROR(update->Apply());
    apply_s.push_back(apply_watch.seconds());
    if (*live != workload.new_state) return CorruptError("the result of codec " + row.codec + " differs from the new state");
  }
  row.payload_bytes = file.size();
  row.encode_s = Median(encode_s);
  row.preflight_s = Median(preflight_s);
  row.apply_s = Median(apply_s);
  row.result_digest = ToText(
      runtime.backend->Scan(workload.layout, workload.TensorsOf(std::as_const(*live)), ScanScope::kAll, runtime.threads));
  return row;
}

std::string TableOf(const Workload& workload, double entropy_bytes, const Yardsticks& yardsticks,
                    const std::vector<Row>& rows) {
  const auto changes = static_cast<double>(workload.change_count);
  const auto state_bytes = static_cast<double>(workload.old_state.size());
  std::string text = fmt::format(
      "workload {}: {} of {}, {} changes ({:.4f} %), entropy {:.2f} bits a change\n"
      "yardsticks: read old + new {:.2f} GB/s, copy {:.2f} GB/s, bare scatter of the same changes {:.1f} M/s\n\n",
      workload.spec.name, HumanBytes(state_bytes), NameOf(workload.spec.dtype), workload.change_count,
      100 * changes * UnitBytesOf(workload.spec.dtype) / state_bytes, entropy_bytes * 8 / changes,
      2 * state_bytes / yardsticks.read_s / 1e9, state_bytes / yardsticks.copy_s / 1e9, changes / yardsticks.scatter_s / 1e6);
  text += fmt::format("{:<12} {:>10} {:>9} {:>9} {:>10} | {:>11} {:>8} | {:>9} | {:>9} {:>10}\n", "codec", "payload",
                      "bits/chg", "x entropy", "at 445 GB", "diff+encode", "of read", "preflight", "apply", "of scatter");
  for (const Row& row : rows) {
    const auto bytes = static_cast<double>(row.payload_bytes);
    text += fmt::format(
        "{:<12} {:>10} {:>9.2f} {:>9.3f} {:>10} | {:>6.2f} GB/s {:>8.2f} | {:>5.0f} M/s | {:>5.0f} M/s {:>10.2f}\n", row.codec,
        HumanBytes(bytes), bytes * 8 / changes, bytes / entropy_bytes, HumanBytes(bytes / state_bytes * kReferenceModelBytes),
        2 * state_bytes / row.encode_s / 1e9, yardsticks.read_s / row.encode_s, changes / row.preflight_s / 1e6,
        changes / row.apply_s / 1e6, yardsticks.scatter_s / row.apply_s);
  }
  return text + "result digest of every row: " + (rows.empty() ? "" : rows.front().result_digest) + "\n\n";
}

Json FieldsOf(const Workload& workload, double entropy_bytes, const Yardsticks& yardsticks, const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const Row& row : rows) {
    list.push_back({{"codec", row.codec},
                    {"payload_bytes", row.payload_bytes},
                    {"encode_s", row.encode_s},
                    {"preflight_s", row.preflight_s},
                    {"apply_s", row.apply_s},
                    {"result_digest", row.result_digest}});
  }
  return {{"workload", workload.spec.name},    {"state_bytes", workload.old_state.size()},
          {"changes", workload.change_count},  {"entropy_bytes", entropy_bytes},
          {"read_s", yardsticks.read_s},       {"copy_s", yardsticks.copy_s},
          {"scatter_s", yardsticks.scatter_s}, {"rows", list}};
}

Result<std::vector<const Codec*>> ChosenCodecs(const std::vector<std::string>& names) {
  const auto all = AllCodecs();
  std::vector<const Codec*> chosen(all.begin(), all.end());
  if (names.empty()) return chosen;
  chosen.clear();
  for (const std::string& name : names) {
    XORBIT_ASSIGN_OR_RETURN(const auto id, (CodecOptions{.codec = name}.Find()));
    chosen.push_back(FindCodec(*id));
  }
  return chosen;
}

RanksBenchOptions RanksOptionsOf(const BenchOptions& options) {
  RanksBenchOptions ranks = options.ranks;
  ranks.on_devices = options.backend == "cuda";
  ranks.gigabytes = options.gigabytes;
  ranks.csv = options.cuda.csv;
  if (options.cuda.percents != CudaBenchOptions().percents) ranks.percent = options.cuda.percents.front();
  if (options.rounds > 0) ranks.rounds = static_cast<uint32_t>(options.rounds);
  return ranks;
}

EndToEndBenchOptions EndToEndOptionsOf(const BenchOptions& options) {
  EndToEndBenchOptions end_to_end = options.end_to_end;
  end_to_end.on_device = options.backend == "cuda";
  end_to_end.gigabytes = options.gigabytes;
  end_to_end.csv = options.cuda.csv;
  end_to_end.scratch = options.ranks.scratch;
  if (options.workloads != BenchOptions().workloads) end_to_end.workload = options.workloads.front();
  if (!options.codecs.empty()) end_to_end.codec = options.codecs.front();
  if (options.rounds > 0) end_to_end.rounds = static_cast<uint32_t>(options.rounds);
  return end_to_end;
}

BenchMode ModeOf(const BenchOptions& options) {
  const bool on_device = options.backend == "cuda";
  if (options.end_to_end.is_wanted) return on_device ? BenchMode::kEndToEndOnDevice : BenchMode::kEndToEnd;
  if (options.ranks.ranks > 0) return on_device ? BenchMode::kRanksOnDevices : BenchMode::kRanks;
  return on_device ? BenchMode::kDevice : BenchMode::kCodecs;
}

Result<Answer> RunBench(Session& session, const CLI::App& command, const BenchOptions& options) {
  XORBIT_RETURN_IF_ERROR(RefuseUnusedOptions(command, ModeOf(options)));
  if (options.end_to_end.is_wanted) return RunEndToEndBench(EndToEndOptionsOf(options));
  if (options.ranks.ranks > 0 && options.cuda.percents.size() != 1 && options.cuda.percents != CudaBenchOptions().percents) {
    return UsageError("--percent takes one number with --ranks");
  }
  if (options.ranks.ranks > 0) return RunRanksBench(RanksOptionsOf(options));
  if (options.backend == "cuda") return RunCudaBench(options.cuda, options.rounds > 0 ? options.rounds : 20);
  const int rounds = options.rounds > 0 ? options.rounds : 5;
  const Runtime& runtime = session.runtime();
  XORBIT_ASSIGN_OR_RETURN(const std::vector<const Codec*> codecs, ChosenCodecs(options.codecs));
  Answer answer;
  answer.fields = {
      {"threads", runtime.threads}, {"cpu", NameOf(ActiveCpuLevel())}, {"rounds", rounds}, {"workloads", Json::array()}};
  answer.text = fmt::format("{}, {}, medians of {}, in memory\n\n", Counted(static_cast<uint64_t>(runtime.threads), "thread"),
                            NameOf(ActiveCpuLevel()), Counted(static_cast<uint64_t>(rounds), "round"));
  for (const std::string& name : options.workloads) {
    XORBIT_ASSIGN_OR_RETURN(WorkloadSpec spec, FindWorkload(name));
    spec.total_bytes = static_cast<uint64_t>(options.gigabytes * 1e9);
    XORBIT_ASSIGN_OR_RETURN(const Workload workload, MakeWorkload(spec, runtime.threads));
    XORBIT_ASSIGN_OR_RETURN(const UpdateReport report,
                            MeasureUpdate(runtime, workload.layout, workload.TensorsOf(workload.old_state),
                                          workload.TensorsOf(workload.new_state), {}, EncodeOptions{}));
    Buffer live = workload.old_state;
    const Yardsticks yardsticks = MeasureYardsticks(runtime, workload, rounds, &live);
    std::vector<Row> rows;
    for (const Codec* codec : codecs) {
      XORBIT_ASSIGN_OR_RETURN(Row row, MeasureCodec(runtime, workload, *codec, rounds, &live));
      rows.push_back(std::move(row));
    }
    answer.text += TableOf(workload, report.entropy_bits / 8, yardsticks, rows);
    answer.fields["workloads"].push_back(FieldsOf(workload, report.entropy_bits / 8, yardsticks, rows));
  }
  return answer;
}

}  // namespace

void AddBenchCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command =
      AddCommand(app, invocation, "bench", "Measure every codec on the reference workload, in memory",
                 [options, &app](Session& session) { return RunBench(session, *app.get_subcommand("bench"), *options); });
  command->add_option("--workload", options->workloads, "reference-bit, reference-fp4, reference-random or bf16-PERCENT");
  command->add_option("--codec", options->codecs, "Only these codecs");
  command
      ->add_option("--gigabytes", options->gigabytes,
                   "Size of one state (default 1); with --ranks, of a rank's; with --end-to-end, of the share")
      ->check(NumberBetween(0.001, 1000.0));
  command->add_option("--rounds", options->rounds, "Rounds to take medians of (default 5; 20 on a GPU)")
      ->check(CLI::Range(1, 1000));
  command->add_option("--backend", options->backend, "cpu (default): every codec; cuda: the receiver on this machine's GPU")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  AddCudaBenchOptions(command, &options->cuda);
  AddRanksBenchOptions(command, &options->ranks);
  AddEndToEndBenchOptions(command, &options->end_to_end);
}

}  // namespace xorbit
