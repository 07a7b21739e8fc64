// Each check says seed, what was done and the first difference, since nobody can look at the machine afterwards.
#include "parity.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "backend/cuda/bitmap_plan.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/report_of.h"
#include "backend/cuda/scan_kernels.h"
#include "backend/cuda/staged_update.h"
#include "backend_parity.h"
#include "binding_parity.h"
#include "codec/change_digest.h"
#include "delta/oracle.h"

namespace xorbit::gpu_check {
namespace {

using cuda::ApplyKind;
using cuda::testing::Download;
using cuda::testing::Report;
using cuda::testing::Upload;

// An update on the device, with the memory it lies in.
struct OnDevice {
  cuda::UpdatePlan plan;
  cuda::DeviceBuffer memory;
  cuda::StagedUpdate staged;
};

// Tiles with a change in `bitmap_bytes_per_change` or fewer are laid out; 0: none.
Result<OnDevice> Put(const Case& c, std::span<const PayloadView> payloads, const cuda::StageOptions& options,
                     uint32_t bitmap_bytes_per_change, cudaStream_t stream) {
  OnDevice on;
  XORBIT_ASSIGN_OR_RETURN(on.plan, cuda::PlanUpdate(c.layout(), payloads, c.map, c.regions));
  cuda::PlanBitmaps(bitmap_bytes_per_change, ~uint64_t{0}, &on.plan);
  XORBIT_ASSIGN_OR_RETURN(on.memory, cuda::DeviceBuffer::Make(cuda::StagedUpdate::BytesFor(on.plan, options)));
  XORBIT_ASSIGN_OR_RETURN(on.staged, cuda::StagedUpdate::Stage(on.plan, options, on.memory.data_dev(), stream));
  return on;
}

// Launches, waits, and tells what was reported.
Status Preflight(const OnDevice& on, cudaStream_t stream, std::vector<cuda::PayloadCounters>* counters) {
  XORBIT_RETURN_IF_ERROR(on.staged.ClearCounters(stream));
  XORBIT_RETURN_IF_ERROR(cuda::LaunchPreflight(on.staged.update(), on.staged.has_undo_log(), {}, stream));
  XORBIT_ASSIGN_OR_RETURN(*counters, on.staged.ReadCounters(stream));
  XORBIT_RETURN_IF_ERROR(cuda::StatusOfReports(on.plan, *counters));
  return cuda::LaunchBitmaps(on.staged.update(), {}, stream);
}

Status Apply(const OnDevice& on, ApplyKind kind, bool expect_after, cudaStream_t stream) {
  XORBIT_RETURN_IF_ERROR(on.staged.ClearCounters(stream));
  XORBIT_RETURN_IF_ERROR(cuda::LaunchApply(on.staged.update(), kind, expect_after, {}, stream));
  XORBIT_ASSIGN_OR_RETURN(const auto counters, on.staged.ReadCounters(stream));
  return cuda::StatusOfReports(on.plan, counters);
}

void CheckPreflightSums(const Case& c, const std::vector<cuda::PayloadCounters>& counters, const RandomTensors& from,
                        bool inverse, Report* report) {
  const auto backend = MakeCpuBackend();
  std::vector<Buffer> image = ImageOf(c, from);
  const std::vector<MutableBytes> regions(image.begin(), image.end());
  for (size_t p = 0; p < counters.size(); ++p) {
    const PayloadView& payload = c.update.payloads[p];
    const StateDigest want = inverse ? StateDigest{} - payload.change() : payload.change();
    const StateDigest got{counters[p].lane0_change, counters[p].lane1_change};
    report->Check(got == want, Where(c, "change digest of payload " + std::to_string(p) + ": expected " + ToText(want) +
                                            ", got " + ToText(got)));
    PrepareOptions options;
    options.direction = inverse ? Direction::kInverse : Direction::kForward;
    const auto prepared = backend->Prepare(c.layout(), {&payload, 1}, {&c.map, regions, {}}, options);
    report->Check(prepared.status(), Where(c, "pre-flight by the CPU"));
    if (!prepared.ok()) continue;
    const uint64_t count = (*prepared)->report().local_change_count;
    report->Check(counters[p].local_change_count == count,
                  Where(c, "elements to write of payload " + std::to_string(p) + ": expected " + std::to_string(count) +
                               ", got " + std::to_string(counters[p].local_change_count)));
  }
}

// There by one kind of write, compared, and back.
void CheckThereAndBack(const Case& c, const OnDevice& on, ApplyKind kind, const RandomTensors& from, const RandomTensors& to,
                       Report* report) {
  const std::string name = "apply kind " + std::to_string(static_cast<int>(kind));
  const bool absolute = kind == ApplyKind::kStore;
  report->Check(Apply(on, kind, false, report->stream()), Where(c, name));
  std::string difference = FirstDifference(c, to);
  report->Check(difference.empty(), Where(c, name + ", there: " + difference));
  report->Check(Apply(on, ApplyKind::kCompare, true, report->stream()), Where(c, "comparison after " + name));
  report->Check(Apply(on, absolute ? ApplyKind::kRestore : kind, true, report->stream()), Where(c, "undo of " + name));
  difference = FirstDifference(c, from);
  report->Check(difference.empty(), Where(c, name + ", back: " + difference));
}

void CheckDirection(const Case& c, bool inverse, Report* report) {
  const RandomTensors& from = inverse ? *c.update.after : *c.update.before;
  const RandomTensors& to = inverse ? *c.update.before : *c.update.after;
  report->Check(SetLive(c, from), Where(c, "upload"));
  for (const int way : {0, 1, 2}) {  // XOR by atomics, XOR of tiles laid out where they can be, stores from a log
    const bool keep_log = way == 2;
    cuda::StageOptions options;
    options.keep_undo_log = keep_log;
    options.inverse = inverse;
    Result<OnDevice> on = Put(c, c.update.payloads, options, way == 1 ? 1U << 20 : 0, report->stream());
    report->Check(on.status(), Where(c, "staging"));
    if (!on.ok()) return;
    std::vector<cuda::PayloadCounters> counters;
    const Status ready = Preflight(*on, report->stream(), &counters);
    report->Check(ready, Where(c, "pre-flight"));
    if (!ready.ok()) return;
    CheckPreflightSums(c, counters, from, inverse, report);
    std::vector<ApplyKind> kinds = {ApplyKind::kReturningXor, ApplyKind::kXor};
    if (keep_log) kinds = {ApplyKind::kStore};
    for (const ApplyKind kind : kinds) CheckThereAndBack(c, *on, kind, from, to, report);
  }
}

// Live weights that are another state: pre-flight must say so, unless nothing changes.
void CheckRefusal(const Case& c, Report* report) {
  report->Check(SetLive(c, *c.update.after), Where(c, "upload"));
  Result<OnDevice> on = Put(c, c.update.payloads, {}, 0, report->stream());
  report->Check(on.status(), Where(c, "staging"));
  if (!on.ok() || on->plan.change_count == 0) return;
  std::vector<cuda::PayloadCounters> counters;
  const Status status = Preflight(*on, report->stream(), &counters);
  report->Check(status.code() == Code::kRefused, Where(c, "a wrong base was not refused but: " + status.message()));
}

void CheckDamaged(const Backend& backend, const Case& c, Random& random, Report* report) {
  const std::vector<Buffer>& payloads = c.update.payload_bytes;
  const auto [bytes, flipped] = cuda::testing::Damage(payloads[Between(random, 0, payloads.size() - 1)], random);
  const Result<PayloadView> payload = ParsePayload(c.layout(), bytes);
  if (!payload.ok()) return;
  const cuda::testing::HostVerdict host = cuda::testing::Judge(backend, *payload);
  const Result<OnDevice> on = Put(c, {&*payload, 1}, {}, 0, report->stream());
  report->Check(host.head.ok() == on.ok(), Where(c, "damaged at" + flipped + ": host and device disagree on the head"));
  if (!host.head.ok() || !on.ok()) return;
  std::vector<cuda::PayloadCounters> counters;
  const Status device = Preflight(*on, report->stream(), &counters);
  const bool same = (host.tile.code() == Code::kCorrupt) == (device.code() == Code::kCorrupt);
  report->Check(
      same, Where(c, "damaged at" + flipped + ": host says '" + host.tile.message() + "', device '" + device.message() + "'"));
  if (host.tile.ok() || !same) return;
  const auto tile_of = [](const std::string& message) { return message.substr(0, message.find(':')); };
  report->Check(
      tile_of(host.tile.message()) == tile_of(device.message()),
      Where(c, "damaged at" + flipped + ": host says '" + host.tile.message() + "', device '" + device.message() + "'"));
}

// Canonical tensors, each in two ranges that part inside a block.
void CheckScan(const Case& c, Report* report) {
  const auto tensors = c.update.before->bytes();
  const StateDigest want = OracleDigest(c.layout(), tensors);
  const std::vector<uint64_t> keys = TensorKeysOf(c.layout());
  std::vector<cuda::ScanRange> ranges;
  Buffer arena;
  for (size_t i = 0; i < keys.size(); ++i) {
    arena.resize(arena.size() + i % 23);
    const uint64_t half = tensors[i].size() / 2;
    ranges.push_back({arena.size(), half, 0, keys[i]});
    ranges.push_back({arena.size() + half, tensors[i].size() - half, half, keys[i]});
    AppendBytes(arena, tensors[i]);
  }
  const Result<cuda::DeviceBuffer> weights = cuda::DeviceBuffer::Make(arena.size());
  report->Check(weights.status(), Where(c, "memory for a scan"));
  if (!weights.ok()) return;
  report->Check(Upload(weights->data_dev(), arena), Where(c, "upload"));
  for (cuda::ScanRange& range : ranges) range.address += reinterpret_cast<uint64_t>(weights->data_dev());
  const std::vector<cuda::ScanRange> pieces = cuda::CutScanRanges(ranges);
  StateDigest got;
  const auto scan = [&]() -> Status {
    XORBIT_ASSIGN_OR_RETURN(const cuda::DeviceBuffer memory,
                            cuda::DeviceBuffer::Make(sizeof(got) + pieces.size() * sizeof(cuda::ScanRange)));
    auto* digest_dev = reinterpret_cast<StateDigest*>(memory.data_dev());
    auto* pieces_dev = reinterpret_cast<cuda::ScanRange*>(digest_dev + 1);
    XORBIT_RETURN_IF_ERROR(Upload(memory.data_dev(), {reinterpret_cast<const uint8_t*>(&got), sizeof(got)}));
    XORBIT_RETURN_IF_ERROR(Upload(reinterpret_cast<uint8_t*>(pieces_dev),
                                  {reinterpret_cast<const uint8_t*>(pieces.data()), pieces.size() * sizeof(cuda::ScanRange)}));
    XORBIT_RETURN_IF_ERROR(cuda::LaunchScan(pieces_dev, pieces.size(), 2, {}, digest_dev, report->stream()));
    cudaStreamSynchronize(report->stream());
    return Download({reinterpret_cast<uint8_t*>(&got), sizeof(got)}, memory.data_dev());
  };
  report->Check(scan(), Where(c, "scan"));
  report->Check(got == want, Where(c, "scan: expected " + ToText(want) + ", got " + ToText(got)));
}

}  // namespace

void CheckParity(uint64_t first_seed, uint64_t count, Report* report) {
  const auto backend = MakeCpuBackend();
  const auto cuda_backend = MakeCudaBackend();
  report->Check(cuda_backend.status(), "making the CUDA backend");
  if (!cuda_backend.ok()) return;
  for (uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    const Result<Case> c = MakeCase(*backend, seed);
    report->Check(c.status(), "making parity seed " + std::to_string(seed));
    if (!c.ok()) continue;
    CheckDirection(*c, false, report);
    CheckDirection(*c, true, report);
    CheckRefusal(*c, report);
    CheckScan(*c, report);
    CheckBackend(**cuda_backend, *backend, *c, report);
    CheckByPortions(**cuda_backend, *c, {.throttle = ServingThrottle::None()}, report);
    CheckBindings(**cuda_backend, *backend, seed, report);
    Random random(seed + 1'000'000);
    for (int i = 0; i < 8; ++i) CheckDamaged(*backend, *c, random, report);
  }
}

}  // namespace xorbit::gpu_check
