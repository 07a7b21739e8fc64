// Half-byte regions that do not end on a word are refused by design; the rest must agree in everything.
#include "backend_parity.h"

#include <algorithm>
#include <memory>

#include "backend/portioned_update.h"

namespace xorbit::gpu_check {
namespace {

using cuda::testing::Report;

std::vector<MutableBytes> RegionsOf(const Case& c) {
  std::vector<MutableBytes> regions;
  for (size_t i = 0; i < c.regions.size(); ++i) regions.emplace_back(RegionOnDevice(c, i), c.map.regions()[i].byte_count);
  return regions;
}

// One unit of work at a time, so that even a small update takes many slices.
constexpr ServingThrottle kShortSlices{1, 1, 1, 1};

}  // namespace

void CompareReports(const PrepareReport& got, const PrepareReport& want, const std::string& what, Report* report) {
  report->Check(got.change_count == want.change_count, what + "change count");
  report->Check(got.local_change_count == want.local_change_count, what + "elements to write: expected " +
                                                                       std::to_string(want.local_change_count) + ", got " +
                                                                       std::to_string(got.local_change_count));
  report->Check(got.record_count == want.record_count, what + "record count");
  report->Check(got.change == want.change,
                what + "change digest: expected " + ToText(want.change) + ", got " + ToText(got.change));
  report->Check(got.sums == want.sums, what + "sums of records");
}

void CheckPrepared(const Backend& cuda_backend, const Backend& cpu_backend, const Case& c, const PrepareOptions& options,
                   Report* report) {
  const std::string what = Where(
      c, std::string("backend") + (options.keep_undo_log ? ", undo log" : "") + (options.partial ? ", partial" : "") + ": ");
  report->Check(SetLive(c, *c.update.before), what + "upload");
  const std::vector<MutableBytes> regions = RegionsOf(c);
  const auto update = cuda_backend.Prepare(c.layout(), c.update.payloads, {&c.map, regions, {}}, options);
  if (update.status().message().find("multiple of 4 bytes") != std::string::npos) return;
  report->Check(update.status(), what + "prepare");
  std::vector<Buffer> image = ImageOf(c, *c.update.before);
  const std::vector<MutableBytes> host(image.begin(), image.end());
  const auto expected = cpu_backend.Prepare(c.layout(), c.update.payloads, {&c.map, host, {}}, options);
  report->Check(expected.status(), what + "prepare by the CPU");
  if (!update.ok() || !expected.ok()) return;
  CompareReports((*update)->report(), (*expected)->report(), what, report);
  report->Check((*update)->Apply(), what + "apply");
  report->Check(FirstDifference(c, *c.update.after).empty(), what + "there: " + FirstDifference(c, *c.update.after));
  const Status again = (*update)->Apply();
  report->Check(options.keep_undo_log ? again.ok() : again.code() == Code::kUsage, what + "second apply: " + again.message());
  report->Check((*update)->Undo(), what + "undo");
  report->Check(FirstDifference(c, *c.update.before).empty(), what + "back: " + FirstDifference(c, *c.update.before));
  if (options.keep_undo_log || (*update)->report().local_change_count == 0) return;
  // Somebody else writes between prepare and apply: refused, and left as found.
  report->Check(SetLive(c, *c.update.after), what + "upload");
  const Status refused = (*update)->Apply();
  report->Check(refused.code() == Code::kRefused, what + "moved weights were not refused but: " + refused.message());
  report->Check(FirstDifference(c, *c.update.after).empty(), what + "refused: " + FirstDifference(c, *c.update.after));
}

void CheckByPortions(const Backend& cuda_backend, const Case& c, const PrepareOptions& options, Report* report) {
  const std::string what = Where(c, "by portions: ");
  report->Check(SetLive(c, *c.update.before), what + "upload");
  const std::vector<MutableBytes> regions = RegionsOf(c);
  const auto read = [&](uint32_t payload_index, uint64_t offset, bool /*is_again*/, MutableBytes bytes) {
    const ConstBytes body = c.update.payloads[payload_index].body;
    std::copy_n(body.begin() + static_cast<ptrdiff_t>(offset), bytes.size(), bytes.begin());
    return Status();
  };
  for (const bool back : {false, true}) {
    PrepareOptions one_way = options;
    one_way.direction = back ? Direction::kInverse : Direction::kForward;
    Status status;
    PortionReport portions;
    // As little as one record needs: nothing is touched before that is known.
    for (uint64_t limit = 4096;; limit *= 2) {
      status =
          ApplyByPortions(cuda_backend, c.layout(), c.update.payloads, read, {&c.map, regions, {}}, limit, one_way, &portions);
      if (status.message().find("raise the limit") == std::string::npos) break;
    }
    if (status.message().find("multiple of 4 bytes") != std::string::npos) return;
    report->Check(status, what + (back ? "back" : "there"));
    const RandomTensors& want = back ? *c.update.before : *c.update.after;
    report->Check(FirstDifference(c, want).empty(), what + FirstDifference(c, want));
  }
}

void CheckBackend(const Backend& cuda_backend, const Backend& cpu_backend, const Case& c, Report* report) {
  for (const bool keep_undo_log : {false, true}) {
    for (const bool partial : {false, true}) {
      PrepareOptions options;
      options.keep_undo_log = keep_undo_log;
      options.partial = partial;
      options.throttle = partial ? kShortSlices : ServingThrottle::None();
      CheckPrepared(cuda_backend, cpu_backend, c, options, report);
    }
  }
  report->Check(SetLive(c, *c.update.before), Where(c, "upload"));
  std::vector<Buffer> image = ImageOf(c, *c.update.before);
  const std::vector<MutableBytes> host(image.begin(), image.end());
  const std::vector<MutableBytes> device = RegionsOf(c);
  for (const ScanScope scope : {ScanScope::kAll, ScanScope::kFrozen}) {
    const ServingThrottle throttle = scope == ScanScope::kAll ? kShortSlices : ServingThrottle::None();
    const auto want = cpu_backend.ScanLive(c.layout(), {&c.map, host, {}}, scope, 1, {});
    const auto got = cuda_backend.ScanLive(c.layout(), {&c.map, device, {}}, scope, 1, throttle);
    report->Check(got.status(), Where(c, "scan of live memory"));
    if (got.ok())
      report->Check(*got == *want, Where(c, "scan of live memory: expected " + ToText(*want) + ", got " + ToText(*got)));
  }
}

}  // namespace xorbit::gpu_check
