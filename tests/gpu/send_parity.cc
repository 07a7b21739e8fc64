// Each tensor lies at an alignment of its own, old and new mostly at the same one, as two copies of a model do.
#include "send_parity.h"

#include <algorithm>
#include <chrono>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_sender.h"
#include "backend/cuda/cuda_status.h"
#include "backend/cuda/device_encode.h"
#include "codec/change_digest.h"
#include "codec/mask_format.h"
#include "codec/segment_image.h"
#include "payload/payload_writer.h"
#include "tensor/ownership.h"
#include "tensor/random_model.h"

namespace xorbit::gpu_check {
namespace {

using cuda::testing::Download;
using cuda::testing::Report;
using cuda::testing::Upload;

// One state of a model on the device.
struct DeviceModel {
  cuda::DeviceBuffer memory;
  std::vector<ConstBytes> tensors;  // addresses on the device: not to be read here

  static Result<DeviceModel> Make(const std::vector<ConstBytes>& bytes, const std::vector<uint64_t>& shifts) {
    DeviceModel model;
    uint64_t total = 0;
    for (size_t i = 0; i < bytes.size(); ++i) total += (bytes[i].size() + shifts[i]) / 256 * 256 + 512;
    XORBIT_ASSIGN_OR_RETURN(model.memory, cuda::DeviceBuffer::Make(total));
    uint64_t at = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      model.tensors.emplace_back(model.memory.data_dev() + at + shifts[i], bytes[i].size());
      if (!bytes[i].empty()) XORBIT_RETURN_IF_ERROR(Upload(model.memory.data_dev() + at + shifts[i], bytes[i]));
      at += (bytes[i].size() + shifts[i]) / 256 * 256 + 512;
    }
    return model;
  }
};

// Tensors one after the other in page-locked host memory.
struct PinnedModel {
  cuda::PinnedBuffer memory;
  std::vector<ConstBytes> tensors;

  static Result<PinnedModel> Make(const std::vector<ConstBytes>& bytes, uint64_t gap_bytes) {
    PinnedModel model;
    uint64_t total = 0;
    for (const ConstBytes tensor : bytes) total += tensor.size() + gap_bytes;
    XORBIT_ASSIGN_OR_RETURN(model.memory, cuda::PinnedBuffer::Make(total));
    uint64_t at = 0;
    for (const ConstBytes tensor : bytes) {
      std::copy(tensor.begin(), tensor.end(), model.memory.bytes().begin() + static_cast<ptrdiff_t>(at));
      model.tensors.push_back(model.memory.bytes().subspan(at, tensor.size()));
      at += tensor.size() + gap_bytes;
    }
    return model;
  }
};

struct SendCase {
  uint64_t seed = 0;
  std::string where;
  Layout layout;
  std::unique_ptr<RandomTensors> before;
  std::unique_ptr<RandomTensors> after;
  DeviceModel old_model;
  DeviceModel new_model;
  PinnedModel old_pinned;
  // Now and then old bytes come through a small window.
  bool through_window() const { return seed % 4 == 1; }
  const std::vector<ConstBytes>& olds() const { return through_window() ? old_pinned.tensors : old_model.tensors; }
};

Result<SendCase> MakeCase(uint64_t seed) {
  Random random(seed);
  SendCase c;
  c.seed = seed;
  const uint64_t sizes[] = {500, 20'000, 300'000};
  c.layout = RandomLayout(random, 6, sizes[seed % 3]);
  c.before = std::make_unique<RandomTensors>(random, c.layout);
  c.after = std::make_unique<RandomTensors>(random, c.layout);
  c.after->CopyFrom(*c.before);
  const uint64_t densities[] = {0, 1, 1, 10, 100, 400, 600, 800, 1000};
  const uint64_t density = densities[seed % 9];
  c.after->Mutate(random, c.layout, density);
  c.where = "sender seed " + std::to_string(seed) + ", " + std::to_string(density) + " of 1000 elements";
  std::vector<uint64_t> old_shifts;
  std::vector<uint64_t> new_shifts;
  for (size_t i = 0; i < c.layout.tensors().size(); ++i) {
    // Where blocks of the state digest are aligned, the diff sums it.
    old_shifts.push_back(seed % 2 == 0 ? 64 * Between(random, 0, 3) : Between(random, 0, 200));
    new_shifts.push_back(random() % 4 != 0 ? old_shifts.back() : Between(random, 0, 200));
  }
  XORBIT_ASSIGN_OR_RETURN(c.old_model, DeviceModel::Make(c.before->bytes(), old_shifts));
  XORBIT_ASSIGN_OR_RETURN(c.old_pinned, PinnedModel::Make(c.before->bytes(), seed % 3));
  XORBIT_ASSIGN_OR_RETURN(c.new_model, DeviceModel::Make(c.after->bytes(), new_shifts));
  return c;
}

Result<EncodedSegment> EncodeOnDevice(const SendCase& c, const SegmentMap& map, cudaStream_t stream) {
  const cuda::SendPlan plan = cuda::PlanSend(map, TensorKeysOf(c.layout), SegmentBytes::InTensors(map, c.olds()),
                                             SegmentBytes::InTensors(map, c.new_model.tensors));
  cuda::SenderOptions options;
  options.sizes.change_count = map.element_count();
  if (c.through_window()) options.sizes.slot_bytes = 2 * cuda::kMinSlotBytes;
  XORBIT_ASSIGN_OR_RETURN(const cuda::DeviceBuffer memory,
                          cuda::DeviceBuffer::Make(cuda::CudaSender::DeviceBytesFor(plan, options)));
  XORBIT_ASSIGN_OR_RETURN(const cuda::PinnedBuffer pinned, cuda::PinnedBuffer::Make(cuda::CudaSender::kPinnedBytes));
  XORBIT_ASSIGN_OR_RETURN(cuda::CudaSender sender,
                          cuda::CudaSender::Make(plan, options, memory.data_dev(), pinned.bytes(), stream));
  XORBIT_ASSIGN_OR_RETURN(const cuda::SentSegment sent, sender.Encode());
  const uint64_t record_bytes = sent.record_count * sizeof(TileRecord);
  XORBIT_ASSIGN_OR_RETURN(const cuda::PinnedBuffer out, cuda::PinnedBuffer::Make(record_bytes + sent.body_bytes));
  XORBIT_RETURN_IF_ERROR(sender.CopyOut(sent, out.bytes().data(), out.bytes().data() + record_bytes));
  XORBIT_RETURN_IF_ERROR(sender.BringForward());
  XORBIT_RETURN_IF_ERROR(cuda::CudaStatus(cudaStreamSynchronize(stream), "cudaStreamSynchronize"));
  return cuda::ToEncodedSegment(sent, map.unit_bytes(), out.bytes().first(record_bytes), out.bytes().subspan(record_bytes));
}

template <typename T>
std::string Differ(const char* what, const T& want, const T& got) {
  if (want == got) return "";
  return std::string("; ") + what + ": expected " + std::to_string(want) + ", got " + std::to_string(got);
}

std::string FirstByte(const char* what, const Buffer& want, const Buffer& got) {
  std::string text = Differ((std::string("bytes of ") + what).c_str(), want.size(), got.size());
  const size_t common = std::min(want.size(), got.size());
  const auto [a, b] = std::mismatch(want.begin(), want.begin() + static_cast<ptrdiff_t>(common), got.begin());
  if (a == want.begin() + static_cast<ptrdiff_t>(common)) return text;
  return text + "; " + what + " differ at byte " + std::to_string(a - want.begin()) + ": expected " + std::to_string(*a) +
         ", got " + std::to_string(*b);
}

// What the first differing tile says, so that a broken mode shows.
std::string FirstRecord(const Buffer& want, const Buffer& got) {
  for (size_t at = 0; at + sizeof(TileRecord) <= std::min(want.size(), got.size()); at += sizeof(TileRecord)) {
    const auto w = LoadLe<TileRecord>(want.data() + at);
    const auto g = LoadLe<TileRecord>(got.data() + at);
    const std::string difference = Differ("first", w.first, g.first) + Differ("offset", w.offset, g.offset) +
                                   Differ("before", w.before, g.before) + Differ("after", w.after, g.after) +
                                   Differ("span", w.span, g.span) + Differ("count - 1", w.count_minus_1, g.count_minus_1) +
                                   Differ("mode", w.mode, g.mode);
    if (!difference.empty()) return "; tile " + std::to_string(at / sizeof(TileRecord)) + difference;
  }
  return "";
}

std::string Difference(const EncodedSegment& want, const EncodedSegment& got) {
  return Differ("changes", want.change_count, got.change_count) + Differ("tiles", want.record_count, got.record_count) +
         FirstByte("tables", want.tables, got.tables) + FirstRecord(want.records, got.records) +
         FirstByte("the body", SegmentImage(want).body, SegmentImage(got).body) +
         Differ("lane 0", want.change.lane0, got.change.lane0) + Differ("lane 1", want.change.lane1, got.change.lane1);
}

// Of mask codecs: the first differing frame, and the bytes.
std::string FrameDifference(const EncodedSegment& want, const EncodedSegment& got) {
  std::string frame;
  for (size_t at = 0; frame.empty() && at + sizeof(FrameRecord) <= std::min(want.records.size(), got.records.size());
       at += sizeof(FrameRecord)) {
    const auto w = LoadLe<FrameRecord>(want.records.data() + at);
    const auto g = LoadLe<FrameRecord>(got.records.data() + at);
    const std::string fields =
        Differ("first", w.first, g.first) + Differ("inner offset", w.inner_offset, g.inner_offset) +
        Differ("before", w.before, g.before) + Differ("after", w.after, g.after) + Differ("hash", w.inner_hash, g.inner_hash) +
        Differ("elements", w.element_count, g.element_count) + Differ("inner bytes", w.inner_bytes, g.inner_bytes) +
        Differ("changes", w.change_count, g.change_count);
    if (!fields.empty()) frame = "; frame " + std::to_string(at / sizeof(FrameRecord)) + fields;
  }
  return Differ("changes", want.change_count, got.change_count) + Differ("frames", want.record_count, got.record_count) +
         frame + FirstByte("outer records", want.outer, got.outer) +
         FirstByte("the body", SegmentImage(want).body, SegmentImage(got).body) +
         Differ("cuts", want.cuts.size(), got.cuts.size()) + Differ("lane 0", want.change.lane0, got.change.lane0) +
         Differ("lane 1", want.change.lane1, got.change.lane1);
}

void CheckOwner(const SendCase& c, const Backend& backend, const std::vector<SegmentMap>& maps, const PayloadInfo& info,
                Report* report) {
  std::vector<EncodedSegment> cpu_segments;
  std::vector<EncodedSegment> gpu_segments;
  for (const SegmentMap& map : maps) {
    const std::string where = c.where + ", owner " + std::to_string(info.owner_index) + ", unit " +
                              std::to_string(map.unit_bytes()) + ", " + std::to_string(map.element_count()) + " elements";
    const SegmentBytes olds = SegmentBytes::InTensors(map, c.before->bytes());
    const SegmentBytes news = SegmentBytes::InTensors(map, c.after->bytes());
    Result<EncodedOwner> want =
        backend.EncodeDiff(c.layout, {&map, 1}, {.bytes = {&olds, 1}}, {&news, 1}, CodecId::kSparse, {});
    Result<EncodedSegment> got = EncodeOnDevice(c, map, report->stream());
    report->Check(got.status(), where);
    if (!want.ok() || !got.ok()) return;
    const std::string difference = Difference(want->segments[0], *got);
    report->Check(difference.empty(), where + difference);
    cpu_segments.push_back(std::move(want->segments[0]));
    gpu_segments.push_back(std::move(*got));
  }
  if (maps.empty()) return;
  const Result<Payload> want = WritePayload(c.layout, info, maps, std::move(cpu_segments), 2);
  const Result<Payload> got = WritePayload(c.layout, info, maps, std::move(gpu_segments), 2);
  report->Check(want.ok() && got.ok() && want->sha256 == got->sha256, c.where + ": the payloads' hashes differ");
}

// The same through the backend's door, base digest included; and with old bytes in page-locked host memory.
void CheckBackend(const SendCase& c, const Backend& backend, const std::vector<SegmentMap>& maps, bool old_on_host,
                  CodecId codec, Report* report) {
  if (maps.empty()) return;
  const std::string where = c.where + (old_on_host ? ", old bytes pinned" : "") + ", through the backend, codec " +
                            std::string(FindCodec(codec)->name());
  EncodeOptions options;
  options.threads = 2;
  const uint64_t frame_sizes[] = {64, 4096, 65536, uint64_t{1} << 20, uint64_t{4} << 20};
  options.frame_bytes = frame_sizes[c.seed % 5];
  const std::vector<SegmentBytes> host_olds = InTensors(maps, c.before->bytes());
  const std::vector<SegmentBytes> host_news = InTensors(maps, c.after->bytes());
  const std::vector<SegmentBytes> device_olds = InTensors(maps, old_on_host ? c.old_pinned.tensors : c.old_model.tensors);
  const std::vector<SegmentBytes> device_news = InTensors(maps, c.new_model.tensors);
  const Result<EncodedOwner> want = backend.EncodeDiff(c.layout, maps, {.bytes = host_olds}, host_news, codec, options);
  const Result<std::optional<int>> device = cuda::DeviceOfStates(maps, device_olds, device_news);
  report->Check(device.status(), where);
  if (!want.ok() || !device.ok()) return;
  report->Check(device->has_value(), where + ": the device was not found");
  const Result<EncodedOwner> got =
      cuda::EncodeDiffOnDevice(c.layout, maps, {.bytes = device_olds}, device_news, device->value_or(0), codec, options);
  report->Check(got.status(), where);
  if (!got.ok()) return;
  report->Check(want->base == got->base,
                where + ": base digest: expected " + ToText(want->base) + ", got " + ToText(got->base));
  for (size_t i = 0; i < maps.size(); ++i) {
    const EncodedSegment& one = want->segments[i];
    const EncodedSegment& other = got->segments[i];
    const std::string difference = codec == CodecId::kSparse ? Difference(one, other) : FrameDifference(one, other);
    report->Check(difference.empty(), where + ", unit " + std::to_string(maps[i].unit_bytes()) + difference);
  }
}

// After every owner has brought its elements forward, old memory is what new memory is, frozen tensors aside.
void CheckBaseline(const SendCase& c, Report* report) {
  const std::vector<ConstBytes> want = c.after->bytes();
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i].empty() || c.layout.tensors()[i].frozen) continue;
    Buffer got(want[i].size());
    report->Check(Download(got, c.olds()[i].data()), c.where + ": download");
    report->Check(std::equal(got.begin(), got.end(), want[i].begin()),
                  c.where + ": the baseline was not brought forward in tensor " + std::to_string(i));
  }
}

}  // namespace

void CheckSendParity(uint64_t first_seed, double seconds, cuda::testing::Report* report) {
  const auto backend = MakeCpuBackend();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  uint64_t seed = first_seed;
  for (; std::chrono::steady_clock::now() < end; ++seed) {
    const Result<SendCase> c = MakeCase(seed);
    report->Check(c.status(), "making sender seed " + std::to_string(seed));
    if (!c.ok()) return;
    const Split splits[] = {Split::kWhole, Split::kRange, Split::kColumn};
    const auto owner_count = static_cast<uint32_t>(1 + seed % 3);
    const auto owners = PlanOwners(c->layout, owner_count, splits[seed / 3 % 3]);
    report->Check(owners.status(), c->where + ": owners");
    if (!owners.ok()) return;
    for (uint32_t i = 0; i < owner_count; ++i) {
      const CodecId mask_codecs[] = {CodecId::kSnappy, CodecId::kLz4, CodecId::kSnappyZstd, CodecId::kLz4Zstd};
      CheckBackend(*c, *backend, (*owners)[i], seed % 2 == 0, CodecId::kSparse, report);
      CheckBackend(*c, *backend, (*owners)[i], seed % 2 == 0, mask_codecs[(seed + i) % 4], report);
      CheckOwner(*c, *backend, (*owners)[i], {CodecId::kSparse, i, owner_count}, report);
    }
    CheckBaseline(*c, report);
    if (report->failure_count() > 20) break;
  }
  report->Note("sender parity", "seeds", std::to_string(seed - first_seed));
  report->Note("sender parity", "failures", std::to_string(report->failure_count()));
}

}  // namespace xorbit::gpu_check
