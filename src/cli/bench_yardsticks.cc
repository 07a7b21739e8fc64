#include "cli/bench_yardsticks.h"

#include <atomic>
#include <cstring>
#include <functional>

#include "backend/cpu/kernels.h"
#include "base/parallel.h"
#include "base/stopwatch.h"

namespace xorbit {
namespace {

// Byte positions of the changed units, and the XOR of each end to end.
struct ReadyChanges {
  std::vector<uint64_t> positions;
  Buffer xors;
};

ReadyChanges ChangesOf(const Workload& workload, uint32_t unit_bytes) {
  ReadyChanges changes;
  const uint8_t* olds = workload.old_state.data();
  const uint8_t* news = workload.new_state.data();
  for (uint64_t at = 0; at < workload.old_state.size(); at += unit_bytes) {
    if (std::memcmp(olds + at, news + at, unit_bytes) == 0) continue;
    changes.positions.push_back(at);
    for (uint64_t i = at; i < at + unit_bytes; ++i) changes.xors.push_back(olds[i] ^ news[i]);
  }
  return changes;
}

// The median time of body(begin, end) on every thread's share of [0, count) at once.
double MedianSeconds(int threads, int rounds, uint64_t count, const std::function<void(uint64_t, uint64_t)>& body) {
  const auto shares = static_cast<uint64_t>(threads);
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    const Stopwatch watch;
    (void)ParallelFor(threads, shares, [&](uint64_t share) -> Status {
      body(count * share / shares, count * (share + 1) / shares);
      return {};
    });
    seconds.push_back(watch.seconds());
  }
  return Median(std::move(seconds));
}

}  // namespace

Yardsticks MeasureYardsticks(const Runtime& runtime, const Workload& workload, int rounds, Buffer* live) {
  constexpr uint64_t kLineBytes = 64;  // kernels want whole cache lines
  const SumKernel sum = KernelsOf(ActiveCpuLevel()).sum;
  const uint32_t unit_bytes = UnitBytesOf(workload.spec.dtype);
  const ReadyChanges changes = ChangesOf(workload, unit_bytes);
  const uint64_t byte_count = workload.old_state.size();
  const uint8_t* olds = workload.old_state.data();
  const uint8_t* news = workload.new_state.data();
  uint8_t* target = live->data();
  std::atomic<uint64_t> sink{0};  // keeps the sums alive

  Yardsticks yardsticks;
  yardsticks.read_s =
      MedianSeconds(runtime.threads, rounds, byte_count / kLineBytes, [&](uint64_t first_line, uint64_t end_line) {
        const uint64_t begin = first_line * kLineBytes;
        const uint64_t length = (end_line - first_line) * kLineBytes;
        sink += sum(olds + begin, length) + sum(news + begin, length);
      });
  yardsticks.copy_s = MedianSeconds(runtime.threads, rounds, byte_count, [&](uint64_t begin, uint64_t end) {
    std::memcpy(target + begin, olds + begin, end - begin);
  });
  yardsticks.scatter_s = MedianSeconds(runtime.threads, rounds, changes.positions.size(), [&](uint64_t first, uint64_t end) {
    for (uint64_t i = first; i < end; ++i) {
      for (uint32_t b = 0; b < unit_bytes; ++b) target[changes.positions[i] + b] ^= changes.xors[i * unit_bytes + b];
    }
  });
  return yardsticks;
}

}  // namespace xorbit
