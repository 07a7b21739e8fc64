// The same memory twice: on the host, where the CPU prepares it, and at the same distances on the device. Whatever is done to
// one is done to the other, and then all bytes are compared, those between regions too.
#include "binding_parity.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/testing/bound_update.h"
#include "backend_parity.h"

namespace xorbit::gpu_check {
namespace {

using cuda::testing::BoundUpdate;
using cuda::testing::Download;
using cuda::testing::MakeBoundUpdate;
using cuda::testing::Report;
using cuda::testing::Upload;

class Mirror {
 public:
  // `random` is in the state in which `host` was made from it.
  static Result<Mirror> Make(Random random, const Layout& layout, RandomLiveMemory* host) {
    Mirror mirror;
    mirror.host_ = host;
    XORBIT_ASSIGN_OR_RETURN(mirror.memory_, cuda::DeviceBuffer::Make(host->bytes().size() + 8));
    const MutableBytes storage(mirror.memory_.data_dev(), host->bytes().size());
    mirror.device_ = std::make_unique<RandomLiveMemory>(random, layout, host->map(), storage);
    return mirror;
  }

  LiveMemory memory() const { return device_->memory(); }

  // Brings the device after the host.
  Status Follow() const { return Upload(memory_.data_dev(), host_->bytes()); }
  // Where the device differs, or nothing.
  std::string FirstDifference() const {
    Buffer got(host_->bytes().size());
    const Status status = Download(got, memory_.data_dev());
    if (!status.ok()) return status.message();
    const auto [a, b] = std::ranges::mismatch(got, host_->bytes());
    if (a == got.end()) return "";
    return "byte " + std::to_string(a - got.begin()) + " of " + std::to_string(got.size()) + ", " + Describe(&*b) +
           ": expected " + std::to_string(*b) + ", got " + std::to_string(*a);
  }

 private:
  std::string Describe(const uint8_t* byte) const {
    const auto find = [&](std::span<const MutableBytes> stretches, const std::string& what) -> std::string {
      for (size_t i = 0; i < stretches.size(); ++i) {
        const uint8_t* begin = stretches[i].data();
        if (byte < begin || byte >= begin + stretches[i].size()) continue;
        return what + std::to_string(i) + " at its byte " + std::to_string(byte - begin);
      }
      return "";
    };
    const LiveMemory host = host_->memory();
    const std::string where = find(host.regions, "region ") + find(host.kept, "kept copy ");
    return where.empty() ? "outside" : where;
  }

  RandomLiveMemory* host_ = nullptr;
  cuda::DeviceBuffer memory_;
  std::unique_ptr<RandomLiveMemory> device_;
};

// One update, prepared on both sides.
class BindingCheck {
 public:
  BindingCheck(const Backend& cuda_backend, const Backend& cpu_backend, std::string what, const BoundUpdate& bound,
               RandomLiveMemory* live, Report* report)
      : cuda_(cuda_backend), cpu_(cpu_backend), what_(std::move(what)), bound_(bound), live_(live), report_(report) {}

  void Run(const PrepareOptions& options, const Mirror& mirror, Random& random) {
    Follow(mirror);
    const auto on_device = Prepare(cuda_, mirror.memory(), options);
    if (on_device.status().message().find("multiple of 4 bytes") != std::string::npos) return;
    const auto on_host = Prepare(cpu_, live_->memory(), options);
    Expect(on_device.status().message() == on_host.status().message(),
           "prepare: the CPU says '" + on_host.status().message() + "', the device '" + on_device.status().message() + "'");
    if (!on_device.ok() || !on_host.ok()) return;
    CompareReports((*on_device)->report(), (*on_host)->report(), what_, report_);
    CompareScans(mirror);
    const Buffer here = live_->Snapshot();
    Both(mirror, "apply", (*on_device)->Apply(), (*on_host)->Apply());
    const Buffer there = live_->Snapshot();
    Both(mirror, "second apply", (*on_device)->Apply(), (*on_host)->Apply());
    Both(mirror, "undo", (*on_device)->Undo(), (*on_host)->Undo());
    if (here == there) return;
    // Somebody else writes between prepare and apply, and before prepare.
    const auto [byte, value] = ForeignValue(random, live_, here, there);
    *byte = value;
    Follow(mirror);
    Both(mirror, "apply over a foreign value", (*on_device)->Apply(), (*on_host)->Apply());
    const Status again_on_device = Prepare(cuda_, mirror.memory(), options).status();
    Both(mirror, "prepare over a foreign value", again_on_device, Prepare(cpu_, live_->memory(), options).status());
  }

 private:
  Result<std::unique_ptr<PreparedUpdate>> Prepare(const Backend& backend, const LiveMemory& memory,
                                                  const PrepareOptions& options) const {
    return backend.Prepare(bound_.update.layout, bound_.update.payloads, memory, options);
  }
  void Expect(bool holds, const std::string& what) { report_->Check(holds, what_ + what); }
  void Follow(const Mirror& mirror) { report_->Check(mirror.Follow(), what_ + "upload"); }
  void Both(const Mirror& mirror, const std::string& step, const Status& device, const Status& host) {
    Expect(device.message() == host.message(),
           step + ": the CPU says '" + host.message() + "', the device '" + device.message() + "'");
    const std::string difference = mirror.FirstDifference();
    Expect(difference.empty(), "after " + step + ": " + difference);
  }
  void CompareScans(const Mirror& mirror) {
    for (const ScanScope scope : {ScanScope::kAll, ScanScope::kFrozen}) {
      const auto want = cpu_.ScanLive(bound_.update.layout, live_->memory(), scope, 1, ServingThrottle::None());
      const auto got = cuda_.ScanLive(bound_.update.layout, mirror.memory(), scope, 1, ServingThrottle::None());
      report_->Check(got.status(), what_ + "scan");
      if (got.ok()) Expect(*got == *want, "scan: expected " + ToText(*want) + ", got " + ToText(*got));
    }
  }

  const Backend& cuda_;
  const Backend& cpu_;
  std::string what_;
  const BoundUpdate& bound_;
  RandomLiveMemory* live_;
  Report* report_;
};

}  // namespace

void CheckBindings(const Backend& cuda_backend, const Backend& cpu_backend, uint64_t seed, Report* report, CodecId codec) {
  const uint64_t max_elements = seed % 8 == 0 ? 300'000 : 20'000;
  for (const bool tears : {false, true}) {
    for (const bool keep_undo_log : {false, true}) {
      if (keep_undo_log && codec != CodecId::kSparse) continue;
      const std::string what =
          "bindings seed " + std::to_string(seed) + (tears ? ", torn" : "") + (keep_undo_log ? ", undo log" : "") + ": ";
      const Result<BoundUpdate> bound = MakeBoundUpdate(cpu_backend, seed, max_elements, tears, codec);
      report->Check(bound.status(), what + "making an update");
      if (!bound.ok()) return;
      Random random(seed);
      PrepareOptions options;
      options.keep_undo_log = keep_undo_log;
      options.partial = seed % 3 == 0;
      if (seed % 2 == 0) options.direction = Direction::kInverse;
      options.throttle = keep_undo_log ? ServingThrottle{1, 1, 1, 1} : ServingThrottle::None();  // one item a slice, or all
      auto map =
          LiveMap::Make(bound->update.layout, options.partial ? cuda::testing::OneRankOf(random, bound->spec) : bound->spec);
      report->Check(map.status(), what + "making a map");
      if (!map.ok()) return;
      const Random places = random;
      RandomLiveMemory live(random, bound->update.layout, std::move(map).value());
      live.Fill((seed % 2 == 0 ? bound->update.after : bound->update.before)->bytes());
      const Result<Mirror> mirror = Mirror::Make(places, bound->update.layout, &live);
      report->Check(mirror.status(), what + "memory");
      if (mirror.ok()) BindingCheck(cuda_backend, cpu_backend, what, *bound, &live, report).Run(options, *mirror, random);
    }
  }
}

}  // namespace xorbit::gpu_check
