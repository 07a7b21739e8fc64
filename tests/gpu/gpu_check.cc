// Checks and measures the CUDA backend on the GPU of this machine: `xorbit_gpu_check --help`.
//
// Output, one line each: "time,benchmark,variant,median ms,least,most,runs,bytes,changes,GB/s,billion changes/s",
// "note,benchmark,name,value", "serving,..." (serving_bench.h), "FAILED,what was expected". Exit code 1 if anything failed.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "backend/cuda/cuda_status.h"
#include "backend/cuda/testing/mask_bench.h"
#include "backend/cuda/testing/receive_bench.h"
#include "backend/cuda/testing/send_bench.h"
#include "backend/cuda/testing/serving_bench.h"
#include "mask_parity.h"
#include "parity.h"
#include "send_parity.h"

namespace xorbit::gpu_check {
namespace {

using cuda::testing::BenchMasks;
using cuda::testing::BenchOptions;
using cuda::testing::BenchPinnedSend;
using cuda::testing::BenchReceive;
using cuda::testing::BenchSend;
using cuda::testing::BenchYardsticks;
using cuda::testing::BigModel;
using cuda::testing::MakeMatrices;
using cuda::testing::MakeShare;
using cuda::testing::MaskBenchOptions;
using cuda::testing::Report;
using cuda::testing::SendBenchOptions;
using cuda::testing::ServingOptions;

struct Options {
  uint64_t first_seed = 1;
  uint64_t parity_count = 60;
  double share_gigabytes = 0;
  double share_random_gigabytes = 0;
  double bf16_gigabytes = 0;
  double fp8_gigabytes = 0;
  std::vector<double> percents;
  double yardstick_gigabytes = 0;
  int repeats = 20;
  BenchOptions bench;
  uint64_t mask_parity_count = 0;
  uint64_t fuzz_frame_count = 0;
  double mask_gigabytes = 0;
  MaskBenchOptions masks;
  double send_parity_seconds = 0;
  double send_gigabytes = 0;
  double send_pinned_gigabytes = 0;
  SendBenchOptions send;
  double serving_gigabytes = 0;
  ServingOptions serving;
};

uint64_t Bytes(double gigabytes) { return static_cast<uint64_t>(gigabytes * 1e9); }

void Bench(const Result<BigModel>& model, const Options& options, Report* report) {
  report->Check(model.status(), "making a model");
  if (model.ok()) BenchReceive(*model, options.bench, report);
}

int Run(const Options& options) {
  cudaDeviceProp device{};
  const Status found = cuda::CudaStatus(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  if (!found.ok()) {
    std::printf("FAILED,%s\n", found.message().c_str());
    return 1;
  }
  const Result<cuda::Stream> stream = cuda::MakeStream();
  if (!stream.ok()) {
    std::printf("FAILED,%s\n", stream.status().message().c_str());
    return 1;
  }
  Report report(stream->get(), options.repeats, [](const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  });
  report.Note("device", "name", device.name);
  report.Note("device", "multiprocessors", std::to_string(device.multiProcessorCount));
  if (options.parity_count > 0) CheckParity(options.first_seed, options.parity_count, &report);
  report.Note("parity", "checks", std::to_string(report.check_count()));
  if (options.mask_parity_count > 0) CheckMasks(options.first_seed, options.mask_parity_count, options.masks.decoders, &report);
  if (options.fuzz_frame_count > 0) CheckDamagedFrames(options.first_seed, options.fuzz_frame_count, &report);
  if (options.send_parity_seconds > 0) CheckSendParity(options.first_seed, options.send_parity_seconds, &report);
  if (options.send_gigabytes > 0) {
    SendBenchOptions send = options.send;
    send.gigabytes = options.send_gigabytes;
    send.repeats = options.repeats;
    BenchSend(send, &report);
  }
  if (options.send_pinned_gigabytes > 0) BenchPinnedSend(options.send_pinned_gigabytes, &report);
  if (options.serving_gigabytes > 0) {
    const Result<BigModel> model = MakeShare(Bytes(options.serving_gigabytes), false);
    report.Check(model.status(), "making a model");
    if (model.ok()) BenchServing(*model, options.serving, &report);
  }
  if (options.yardstick_gigabytes > 0) BenchYardsticks(Bytes(options.yardstick_gigabytes), &report);
  if (options.mask_gigabytes > 0) BenchMasks(Bytes(options.mask_gigabytes), options.masks, &report);
  if (options.share_gigabytes > 0) Bench(MakeShare(Bytes(options.share_gigabytes), false), options, &report);
  if (options.share_random_gigabytes > 0) Bench(MakeShare(Bytes(options.share_random_gigabytes), true), options, &report);
  for (const double percent : options.percents) {
    if (options.bf16_gigabytes > 0)
      Bench(MakeMatrices(Dtype::kBF16, Bytes(options.bf16_gigabytes), percent / 100), options, &report);
    if (options.fp8_gigabytes > 0)
      Bench(MakeMatrices(Dtype::kF8E4M3, Bytes(options.fp8_gigabytes), percent / 100), options, &report);
  }
  report.Note("all", "checks", std::to_string(report.check_count()));
  report.Note("all", "failures", std::to_string(report.failure_count()));
  return report.failure_count() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace xorbit::gpu_check

int main(int argc, char** argv) {
  xorbit::gpu_check::Options options;
  CLI::App app("Checks and measures xorbit's CUDA backend on this machine's GPU");
  app.add_option("--seed", options.first_seed, "first seed of the parity checks");
  app.add_option("--parity", options.parity_count, "number of random updates to compare with the CPU");
  app.add_option("--share", options.share_gigabytes, "gigabytes of the reference's share (111.25), one-bit changes");
  app.add_option("--share-random", options.share_random_gigabytes, "the same with random bytes");
  app.add_option("--bf16", options.bf16_gigabytes, "gigabytes of BF16 matrices (100)");
  app.add_option("--fp8", options.fp8_gigabytes, "gigabytes of FP8 matrices");
  app.add_option("--percent", options.percents, "share of the matrices' elements that change; several may be given");
  app.add_option("--yardsticks", options.yardstick_gigabytes, "gigabytes to read, copy and XOR for comparison");
  app.add_option("--repeats", options.repeats, "runs of each measurement");
  app.add_option("--blocks", options.bench.blocks_per_multiprocessor, "blocks a multiprocessor to try; 0 is the default");
  app.add_option("--bitmap", options.bench.bitmap_bytes_per_change,
                 "lay out tiles with a change in so many bytes or fewer; several may be tried, 0 is never");
  app.add_flag("!--no-undo-log", options.bench.with_undo_log, "leave out the variants that need an undo log");
  app.add_option("--mask-parity", options.mask_parity_count, "number of updates of mask codecs to compare with the CPU");
  app.add_option("--fuzz-frames", options.fuzz_frame_count,
                 "number of Snappy and of LZ4 frames, three quarters of them damaged, for our decoding kernels");
  app.add_option("--mask-bench", options.mask_gigabytes, "gigabytes of the reference's share (111.25), by mask codecs");
  app.add_option("--mask-codec", options.masks.codecs, "mask codecs of the benchmark; several may be given");
  app.add_option("--mask-slot", options.masks.slot_megabytes, "megabytes of a slot to try; 0 is the default");
  app.add_option("--decoder", options.masks.decoders,
                 "decoders of the benchmark, and more for parity: engine, kernels, cpu, nvcomp:FOLDER");
  app.add_option("--portion", options.masks.portion_megabytes,
                 "also take the mask benchmark's updates, or sparse ones, by portions of so many megabytes");
  app.add_flag("--mask-on-host", options.masks.tries_host, "also with frames read over the bus");
  app.add_option("--sender-parity", options.send_parity_seconds, "seconds of comparing the sender's payloads with the CPU's");
  app.add_option("--sender-bench", options.send_gigabytes, "gigabytes of each of two states to encode the difference of (40)");
  app.add_option("--sender-pinned", options.send_pinned_gigabytes,
                 "gigabytes of old bytes in page-locked host memory to encode the difference of (10)");
  app.add_flag("!--no-verify", options.send.verify, "do not compare the sender benchmark's bytes with the CPU's");
  app.add_option("--serving", options.serving_gigabytes,
                 "gigabytes of a model (60) that is decoded from while it is fetched for, pre-flighted and scanned");
  app.add_option("--serving-steps", options.serving.least_steps, "least decode steps of each row");
  app.add_flag_callback(
      "--serving-persistent", [&] { options.serving.decode.shape = xorbit::cuda::testing::DecodeShape::kPersistent; },
      "decode kernels with one block for each multiprocessor");
  app.add_flag("!--serving-default-priority", options.serving.decode.has_high_priority, "the engine asks for no priority");
  CLI11_PARSE(app, argc, argv);
  return xorbit::gpu_check::Run(options);
}
