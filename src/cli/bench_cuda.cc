#include "cli/bench_cuda.h"

#include <fmt/core.h>

#include "base/file.h"

namespace xorbit {
namespace {

uint64_t BytesOf(double gigabytes) { return static_cast<uint64_t>(gigabytes * 1e9); }

std::string TableOf(const GpuBenchReport& report, int rounds) {
  std::string text =
      fmt::format("{}, medians of {} rounds by events, every byte verified\n\n{:<13} {:<44} {:>10} {:>10} {:>10} {:>9} {:>9}\n",
                  report.device, rounds, "benchmark", "stage", "median ms", "least", "most", "GB/s", "G chg/s");
  for (const GpuBenchRow& row : report.rows) {
    text += fmt::format("{:<13} {:<44} {:>10.3f} {:>10.3f} {:>10.3f} {:>9.1f} {:>9.3f}\n", row.benchmark, row.variant,
                        row.median_ms, row.least_ms, row.most_ms, static_cast<double>(row.byte_count) / row.median_ms / 1e6,
                        static_cast<double>(row.change_count) / row.median_ms / 1e6);
  }
  return text;
}

Json FieldsOf(const GpuBenchReport& report, int rounds) {
  Json rows = Json::array();
  for (const GpuBenchRow& row : report.rows) {
    rows.push_back({{"benchmark", row.benchmark},
                    {"stage", row.variant},
                    {"median_ms", row.median_ms},
                    {"least_ms", row.least_ms},
                    {"most_ms", row.most_ms},
                    {"bytes", row.byte_count},
                    {"changes", row.change_count}});
  }
  return {{"device", report.device}, {"rounds", rounds}, {"rows", rows}};
}

}  // namespace

void AddCudaBenchOptions(CLI::App* command, CudaBenchOptions* options) {
  const CLI::Validator is_size = NumberBetween(0, 1e6);
  command
      ->add_option("--share", options->share_gigabytes,
                   "With cuda: gigabytes of the reference's share (default 111.25; 0: none)")
      ->check(is_size);
  command->add_option("--bf16", options->bf16_gigabytes, "With cuda: gigabytes of BF16 matrices (default 100)")->check(is_size);
  command->add_option("--fp8", options->fp8_gigabytes, "With cuda: gigabytes of FP8 matrices (default 0)")->check(is_size);
  command
      ->add_option(
          "--percent", options->percents,
          "With cuda: elements of matrices that change (default 0.1 1 3 10 30 50); with --ranks one number (default 1)")
      ->check(NumberBetween(0.0001, 100.0));
  command
      ->add_option("--yardsticks", options->yardstick_gigabytes,
                   "With cuda: gigabytes to read, copy and XOR for comparison (default 40)")
      ->check(is_size);
  command->add_option("--csv", options->csv,
                      "With cuda or --ranks: a file for every row and note; --ranks adds to what is there");
}

Result<Answer> RunCudaBench(const CudaBenchOptions& options, int rounds) {
  GpuBenchOptions gpu;
  gpu.share_bytes = BytesOf(options.share_gigabytes);
  gpu.bf16_bytes = BytesOf(options.bf16_gigabytes);
  gpu.yardstick_bytes = BytesOf(options.yardstick_gigabytes);
  gpu.fp8_bytes = BytesOf(options.fp8_gigabytes);
  gpu.percents = options.percents;
  gpu.rounds = rounds;
  XORBIT_ASSIGN_OR_RETURN(const GpuBenchReport report, RunGpuBench(gpu));
  if (!options.csv.empty()) {
    XORBIT_RETURN_IF_ERROR(WriteWholeFile(PosixFileOps(), options.csv, AsBytes(report.csv)));
  }
  return Answer{FieldsOf(report, rounds), TableOf(report, rounds), 0};
}

}  // namespace xorbit
