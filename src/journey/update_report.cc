#include "journey/update_report.h"

#include <algorithm>
#include <mutex>

#include "backend/cpu/diff_source.h"
#include "base/checked_math.h"
#include "base/parallel.h"
#include "base/stopwatch.h"
#include "codec/change_digest.h"

namespace xorbit {
namespace {

// Changes per tensor of one segment.
Status CountTensors(const SegmentMap& map, const ChangeSource& source, int threads, std::vector<TensorChange>* tensors) {
  constexpr uint64_t kStretchWindows = 64;
  const uint64_t window_count = WindowCountOf(map.element_count());
  std::mutex mutex;  // guards *tensors
  return ParallelFor(threads, DivideRoundUp(window_count, kStretchWindows), [&](uint64_t stretch) -> Status {
    const uint64_t first = stretch * kStretchWindows;
    const uint64_t count = std::min(kStretchWindows, window_count - first);
    const auto cursor = source.Open(first, count);
    WindowChanges window;
    window.Reserve(map.unit_bytes(), source.has_values());
    for (uint64_t w = first; w < first + count; ++w) {
      XORBIT_RETURN_IF_ERROR(cursor->Next(&window));
      const std::lock_guard lock(mutex);
      RunFinder runs(map);
      for (uint32_t i = 0; i < window.count; ++i) {
        ++(*tensors)[runs.Find(w * kWindowElements + window.positions[i]).tensor_index].change_count;
      }
    }
    return {};
  });
}

Result<CodecSize> MeasureCodec(const Runtime& runtime, const Layout& layout, const std::vector<SegmentMap>& maps,
                               TensorBytes old_bytes, TensorBytes new_bytes, CodecId codec, const EncodeOptions& encode) {
  const Stopwatch watch;
  XORBIT_ASSIGN_OR_RETURN(EncodedOwner owner, runtime.backend->EncodeDiff(layout, maps, {.bytes = InTensors(maps, old_bytes)},
                                                                          InTensors(maps, new_bytes), codec, encode));
  XORBIT_ASSIGN_OR_RETURN(const Payload payload,
                          WritePayload(layout, {codec, 0, 1}, maps, std::move(owner.segments), runtime.threads));
  return CodecSize{codec, payload.byte_count, watch.seconds()};
}

ChangeStatistics& StatisticsOf(uint32_t unit_bytes, std::vector<ChangeStatistics>* by_unit) {
  for (ChangeStatistics& statistics : *by_unit) {
    if (statistics.unit_bytes() == unit_bytes) return statistics;
  }
  return by_unit->emplace_back(unit_bytes);
}

}  // namespace

Result<UpdateReport> MeasureUpdate(const Runtime& runtime, const Layout& layout, TensorBytes old_bytes, TensorBytes new_bytes,
                                   const std::vector<CodecId>& codecs, const EncodeOptions& encode_options) {
  XORBIT_ASSIGN_OR_RETURN(const auto owners, PlanOwners(layout, 1, Split::kWhole));
  const std::vector<SegmentMap>& maps = owners.front();
  const std::vector<uint64_t> tensor_keys = TensorKeysOf(layout);
  UpdateReport report;
  for (uint32_t i = 0; i < layout.tensors().size(); ++i) report.tensors.push_back({i, layout.tensors()[i].unit_count(), 0});
  for (const SegmentMap& map : maps) {
    const SegmentBytes old_segment = SegmentBytes::InTensors(map, old_bytes);
    const SegmentBytes new_segment = SegmentBytes::InTensors(map, new_bytes);
    const DiffSource source(map, old_segment, new_segment, tensor_keys, DiffSource::BaseDigest::kSkip);
    XORBIT_RETURN_IF_ERROR(StatisticsOf(map.unit_bytes(), &report.by_unit).Add(source));
    XORBIT_RETURN_IF_ERROR(CountTensors(map, source, runtime.threads, &report.tensors));
  }
  for (const ChangeStatistics& statistics : report.by_unit) {
    report.change_count += statistics.change_count();
    report.element_count += statistics.element_count();
    report.entropy_bits += statistics.EntropyBits();
  }
  EncodeOptions encode = encode_options;
  encode.threads = runtime.threads;
  for (const CodecId codec : codecs) {
    XORBIT_ASSIGN_OR_RETURN(const CodecSize size, MeasureCodec(runtime, layout, maps, old_bytes, new_bytes, codec, encode));
    report.codecs.push_back(size);
  }
  return report;
}

Result<UpdateReport> MeasureUpdate(const Runtime& runtime, const Checkpoint& old_checkpoint, const Checkpoint& new_checkpoint,
                                   const std::vector<CodecId>& codecs, const EncodeOptions& encode) {
  XORBIT_RETURN_IF_ERROR(RequireSameLayout(old_checkpoint.layout(), "OLD", new_checkpoint.layout(), "NEW"));
  return MeasureUpdate(runtime, old_checkpoint.layout(), old_checkpoint.all_tensor_bytes(), new_checkpoint.all_tensor_bytes(),
                       codecs, encode);
}

}  // namespace xorbit
