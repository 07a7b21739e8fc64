#include "cli/bench_modes.h"

#include <array>

namespace xorbit {
namespace {

constexpr uint32_t Bit(BenchMode mode) { return static_cast<uint32_t>(mode); }

constexpr uint32_t kCodecs = Bit(BenchMode::kCodecs);
constexpr uint32_t kDevice = Bit(BenchMode::kDevice);
constexpr uint32_t kRanks = Bit(BenchMode::kRanks) | Bit(BenchMode::kRanksOnDevices);
constexpr uint32_t kEndToEnd = Bit(BenchMode::kEndToEnd) | Bit(BenchMode::kEndToEndOnDevice);

// Options that some mode ignores.
struct Use {
  std::string_view option;
  uint32_t modes;
  std::string_view needs;
};
constexpr auto kUses = std::to_array<Use>({
    {"--workload", kCodecs | kEndToEnd, "--backend cpu without --ranks, or --end-to-end"},
    {"--codec", kCodecs | kEndToEnd, "--backend cpu without --ranks, or --end-to-end"},
    {"--gigabytes", kCodecs | kRanks | kEndToEnd, "--backend cpu, --ranks or --end-to-end"},
    {"--share", kDevice, "--backend cuda alone"},
    {"--bf16", kDevice, "--backend cuda alone"},
    {"--fp8", kDevice, "--backend cuda alone"},
    {"--yardsticks", kDevice, "--backend cuda alone"},
    {"--percent", kDevice | kRanks, "--backend cuda or --ranks"},
    {"--csv", kDevice | kRanks | kEndToEnd, "--backend cuda, --ranks or --end-to-end"},
    {"--scratch", kRanks | kEndToEnd, "--ranks or --end-to-end"},
    {"--ranks", kRanks, "a run of its own, without --end-to-end"},
    {"--devices", Bit(BenchMode::kRanksOnDevices), "--ranks and --backend cuda"},
    {"--nccl", Bit(BenchMode::kRanksOnDevices), "--ranks and --backend cuda"},
    {"--serving", Bit(BenchMode::kEndToEndOnDevice), "--end-to-end and --backend cuda"},
    {"--decoder", Bit(BenchMode::kEndToEndOnDevice), "--end-to-end and --backend cuda"},
    {"--keep-state", Bit(BenchMode::kEndToEndOnDevice), "--end-to-end and --backend cuda"},
    {"--no-payload-hash", Bit(BenchMode::kEndToEndOnDevice), "--end-to-end and --backend cuda"},
});

}  // namespace

Status RefuseUnusedOptions(const CLI::App& command, BenchMode mode) {
  for (const Use& use : kUses) {
    const bool is_given = command.count(std::string(use.option)) > 0;
    if (is_given && (use.modes & Bit(mode)) == 0) {
      return UsageError(std::string(use.option) + " would be ignored here: it needs " + std::string(use.needs));
    }
  }
  return {};
}

}  // namespace xorbit
