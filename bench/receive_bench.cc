// From commit to served: a publisher and its receivers on one machine, through a store in a folder. One model of 4.7 million
// BF16 weights, of which 1 % change from version to version, as in real RL steps.
//
// `receivers` follow 30 versions as fast as they come (lockstep:0), or the publisher waits until all have applied one before it
// publishes the next (lockstep:1). Latency counts from the call that commits to the engine's resume, with the receiver
// asking the store every millisecond. Whoever serves a wrong byte ends the benchmark.
//
// Starting up: a larger model is taken from its base to a version that differs in a quarter of its weights, by one delta and
// with `limit_mib` for payloads, before anybody reads it. Memory and bytes are those of its report.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <fstream>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "base/parallel.h"
#include "base/temporary_folder.h"
#include "receive/follower.h"
#include "receive/start_up.h"
#include "tensor/ownership.h"
#include "tensor/random_model.h"
#include "transport/folder_store.h"

namespace xorbit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kTensors = 24;
constexpr uint64_t kElements = 4'656'768 / kTensors;
constexpr uint64_t kVersions = 30;

// When each version began to be committed: receivers may see it before the call returns.
using CommitTimes = std::array<std::atomic<Clock::rep>, kVersions + 1>;

double SecondsSince(Clock::rep start) {
  return std::chrono::duration<double>(Clock::now().time_since_epoch() - Clock::duration(start)).count();
}

// Peak resident memory since the last reset.
uint64_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmHWM:")) continue;
    uint64_t kib = 0;
    const size_t digits = line.find_first_of("0123456789");
    if (digits != std::string::npos) std::from_chars(line.data() + digits, line.data() + line.size(), kib);
    return kib << 10;
  }
  return 0;
}
void ResetPeak() { std::ofstream("/proc/self/clear_refs") << 5; }

class Sampler final : public Engine {
 public:
  Sampler(const Layout& layout, const std::vector<ConstBytes>& weights, const CommitTimes& commits)
      : map_(CanonicalMap(layout)), commits_(commits) {
    for (const ConstBytes tensor : weights) tensors_.emplace_back(tensor.begin(), tensor.end());
    for (Buffer& tensor : tensors_) regions_.emplace_back(tensor);
    memory_ = {&map_, regions_, {}};
  }
  const LiveMemory& memory() const { return memory_; }
  const std::vector<double>& latencies() const { return latencies_; }
  bool Holds(const std::vector<ConstBytes>& weights) const {
    return std::ranges::equal(tensors_, weights, [](const Buffer& a, ConstBytes b) { return std::ranges::equal(a, b); });
  }

  Status Pause(Deadline /*deadline*/) override { return {}; }
  Status Refresh(const std::vector<std::string>& /*callbacks*/, Deadline /*deadline*/) override { return {}; }
  Status Resume(uint64_t version, Deadline /*deadline*/) override {
    if (version > 0) latencies_.push_back(SecondsSince(commits_[version]));
    return {};
  }

 private:
  LiveMap map_;
  std::vector<Buffer> tensors_;
  std::vector<MutableBytes> regions_;
  LiveMemory memory_;
  const CommitTimes& commits_;
  std::vector<double> latencies_;
};

// One owner that publishes what RandomTensors becomes.
class Trainer {
 public:
  Trainer(const Backend& backend, ObjectStore& store, uint64_t elements = kElements)
      : backend_(backend), layout_(MakeModel(elements)), weights_(random_, layout_), stream_(Begin(store)) {}

  Stream& stream() { return stream_; }
  const Layout& layout() const { return layout_; }
  std::vector<ConstBytes> weights() const { return weights_.bytes(); }

  void Publish(uint64_t version, CommitTimes* commits, uint64_t per_mille = 10, CodecId codec = CodecId::kSparse) {
    const RandomTensors before = weights_;
    weights_.Mutate(random_, layout_, per_mille);
    const std::vector<SegmentMap> maps = PlanOwners(layout_, 1, Split::kWhole).value().front();
    auto encoded = backend_.EncodeDiff(layout_, maps, {.bytes = InTensors(maps, before.bytes())},
                                       InTensors(maps, weights_.bytes()), codec, {});
    const Payload payload = WritePayload(layout_, {.codec = codec}, maps, std::move(encoded->segments), 1).value();
    Receipt receipt;
    receipt.place = {version - 1, version, "bench"};
    receipt.owner_count = 1;
    receipt.codec = codec;
    receipt.owner = ManifestOwnerOf(payload);
    receipt.base_part = encoded->base;
    const SegmentMap* const segment = &maps.front();
    receipt.parts_sha256 = PartsDigest(layout_, {&segment, 1});
    const bool stored = stream_.PutPayload(receipt.place, payload).ok() && stream_.PutReceipt(receipt).ok();
    const Manifest manifest = stream_.Seal(receipt.place).value();
    (*commits)[version] = Clock::now().time_since_epoch().count();
    if (!stored || !stream_.Decide(CommitRecord(manifest)).ok()) std::abort();
  }

 private:
  static Layout MakeModel(uint64_t elements) {
    std::vector<TensorSpec> tensors;
    for (uint64_t i = 0; i < kTensors; ++i) {
      tensors.push_back({.name = "layers." + std::to_string(100 + i), .dtype = Dtype::kBF16, .shape = {elements}});
    }
    return Layout::Make(std::move(tensors)).value();
  }
  Stream Begin(ObjectStore& store) {
    StreamInfo info;
    info.stream_id = "bench";
    info.base = backend_.Scan(layout_, weights_.bytes(), ScanScope::kAll, 1);
    info.layout_digest = layout_.digest();
    return Stream::Create(store, info, layout_).value();
  }

  const Backend& backend_;
  Random random_{1};
  Layout layout_;
  RandomTensors weights_;
  Stream stream_;
};

struct Fleet {
  explicit Fleet(size_t count, Trainer& trainer, const Backend& backend, const CommitTimes& commits) {
    for (size_t i = 0; i < count; ++i) {
      samplers.push_back(std::make_unique<Sampler>(trainer.layout(), trainer.weights(), commits));
      members.push_back(AloneMember());
      // Every receiver reads the store on its own, as a process of its own would.
      streams.push_back(Stream::Open(trainer.stream().store(), "bench").value());
    }
    live_peak_bytes = (ResetPeak(), PeakBytes());
    for (size_t i = 0; i < count; ++i) {
      receivers.push_back(
          Receiver::Attach(streams[i], backend, samplers[i]->memory(), *samplers[i], *members[i], {}, 0).value());
      FollowerOptions options;
      options.poll_interval = std::chrono::milliseconds(1);
      followers.push_back(std::make_unique<Follower>(streams[i], *receivers[i], options));
    }
  }
  bool AllAt(uint64_t version) const {
    return std::ranges::all_of(followers, [&](const auto& follower) { return follower->status().version == version; });
  }

  std::vector<std::unique_ptr<Sampler>> samplers;
  std::vector<std::unique_ptr<CohortMember>> members;
  std::vector<Stream> streams;
  std::vector<std::unique_ptr<Receiver>> receivers;
  std::vector<std::unique_ptr<Follower>> followers;
  uint64_t live_peak_bytes = 0;  // weights and all that was there before receiving began
};

void Follow(Trainer& trainer, Fleet& fleet, bool lockstep, CommitTimes* commits) {
  std::stop_source stop;
  const size_t count = fleet.followers.size();
  const Status ran = ParallelFor(static_cast<int>(count + 1), count + 1, [&](uint64_t i) -> Status {
    if (i > 0) return fleet.followers[i - 1]->Run(stop.get_token());
    for (uint64_t version = 1; version <= kVersions; ++version) {
      trainer.Publish(version, commits);
      while (lockstep && !fleet.AllAt(version)) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    while (!fleet.AllAt(kVersions)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop.request_stop();
    return Status();
  });
  if (!ran.ok()) std::abort();
}

void FollowVersions(benchmark::State& state) {
  const auto backend = MakeCpuBackend();
  std::vector<double> latencies;
  double longest_pause = 0;
  uint64_t extra_bytes = 0;
  uint64_t applied = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const TemporaryFolder folder;
    const auto store = OpenFolderStore(PosixFileOps(), folder / "store").value();
    CommitTimes commits{};
    Trainer trainer(*backend, *store);
    Fleet fleet(static_cast<size_t>(state.range(0)), trainer, *backend, commits);
    state.ResumeTiming();
    Follow(trainer, fleet, state.range(1) != 0, &commits);
    state.PauseTiming();
    extra_bytes = std::max(extra_bytes, PeakBytes() - std::min(PeakBytes(), fleet.live_peak_bytes));
    for (size_t i = 0; i < fleet.samplers.size(); ++i) {
      if (!fleet.samplers[i]->Holds(trainer.weights()) || !fleet.receivers[i]->Verify().ok())
        state.SkipWithError("wrong bytes");
      const std::vector<double>& more = fleet.samplers[i]->latencies();
      latencies.insert(latencies.end(), more.begin(), more.end());
      longest_pause = std::max(longest_pause, fleet.followers[i]->status().longest_pause_seconds);
      applied += fleet.followers[i]->status().applied_count;
    }
    state.ResumeTiming();
  }
  std::ranges::sort(latencies);
  state.counters["commit_to_served_ms"] = latencies[latencies.size() / 2] * 1e3;
  state.counters["longest_pause_ms"] = longest_pause * 1e3;
  state.counters["applied"] = static_cast<double>(applied);
  state.counters["extra_mib_a_receiver"] = static_cast<double>(extra_bytes) / static_cast<double>(state.range(0)) / (1 << 20);
}
BENCHMARK(FollowVersions)
    ->ArgNames({"receivers", "lockstep"})
    ->Args({1, 1})
    ->Args({1, 0})
    ->Args({64, 0})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void StartUpFromTheBase(benchmark::State& state) {
  constexpr uint64_t kLargeElements = 2 << 20;  // of 24 tensors: 100 MB
  const Codec* codec = FindCodec(state.range(0) == 0 ? "sparse" : "lz4+zstd");
  const auto backend = MakeCpuBackend();
  const TemporaryFolder folder;
  const auto store = OpenFolderStore(PosixFileOps(), folder / "store").value();
  CommitTimes commits{};
  Trainer trainer(*backend, *store, kLargeElements);
  Sampler sampler(trainer.layout(), trainer.weights(), commits);
  trainer.Publish(1, &commits, 250, codec->id());
  StartUpOptions options;
  options.staging_limit_bytes = static_cast<uint64_t>(state.range(1)) << 20;
  StartUpReport report;
  uint64_t at = 0;
  for (auto _ : state) {  // there and back
    const auto done = StartUp(trainer.stream(), *backend, sampler.memory(), at, 1 - at, options);
    if (!done.ok()) return state.SkipWithError(done.status().message().c_str());
    report = *done;
    at = 1 - at;
    if (at == 1 && !sampler.Holds(trainer.weights())) return state.SkipWithError("wrong bytes");
  }
  state.SetLabel(std::string(codec->name()));
  state.counters["payload_mib"] = static_cast<double>(report.payload_bytes) / (1 << 20);
  state.counters["staged_mib"] = static_cast<double>(report.most_staged_bytes) / (1 << 20);
  state.counters["fetched_mib"] = static_cast<double>(report.fetched_bytes) / (1 << 20);
  state.counters["groups"] = static_cast<double>(report.group_count);
}
BENCHMARK(StartUpFromTheBase)
    ->ArgNames({"codec", "limit_mib"})
    ->ArgsProduct({{0, 1}, {6, 16, 4096}})
    ->Iterations(4)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace xorbit
