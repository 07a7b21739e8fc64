#include "journey/patch_stream.h"

#include <algorithm>
#include <mutex>

#include "backend/backend.h"
#include "base/checked_math.h"
#include "base/parallel.h"
#include "codec/change_digest.h"

namespace xorbit {
namespace {

// Bytes of tensor between two looks at what is left to do: so many that decoding a record at a stretch's border twice does not
// matter, so few that the workers end together.
constexpr uint64_t kStretchBytes = uint64_t{16} << 20;

// One window as blocks, cut where the window passes from one tensor to the next. `positions` is scratch.
Status Deliver(const Checkpoint& checkpoint, const SegmentMap& map, const WindowChanges& window, uint64_t window_begin,
               std::vector<uint16_t>* positions, PatchSink* sink) {
  const uint32_t unit_bytes = map.unit_bytes();
  uint32_t i = 0;
  while (i < window.count) {
    const Run run = RunAt(map, window_begin + window.positions[i]);
    const uint64_t run_start = window_begin + window.positions[i];
    const uint64_t run_end = run_start + run.element_count;
    uint32_t end = i;
    positions->clear();
    while (end < window.count && window_begin + window.positions[end] < run_end) {
      positions->push_back(static_cast<uint16_t>(window.positions[end] - window.positions[i]));
      ++end;
    }
    const TensorLocation& location = checkpoint.locations()[run.tensor_index];
    XORBIT_RETURN_IF_ERROR(sink->Add({.file_index = location.file_index,
                                      .unit_bytes = unit_bytes,
                                      .file_offset = location.offset_bytes + run.tensor_element * unit_bytes,
                                      .count = end - i,
                                      .positions = positions->data(),
                                      .olds = window.olds.data() + uint64_t{i} * unit_bytes,
                                      .xors = window.xors.data() + uint64_t{i} * unit_bytes}));
    i = end;
  }
  return {};
}

Result<PatchTotals> StreamStretch(const Checkpoint& checkpoint, const PatchInput& input, std::span<const uint64_t> tensor_keys,
                                  uint64_t first_window, uint64_t window_count, PatchSink* sink) {
  const uint32_t unit_bytes = input.map->unit_bytes();
  WindowChanges window;
  window.Reserve(unit_bytes, /*with_olds=*/true);
  std::vector<uint16_t> positions;
  const auto cursor = input.source->Open(first_window, window_count);
  ElementWeigher weigher(*input.map, tensor_keys);
  ChangeDigest digest;
  PatchTotals totals;
  for (uint64_t w = first_window; w < first_window + window_count; ++w) {
    XORBIT_RETURN_IF_ERROR(cursor->Next(&window));
    const uint64_t window_begin = w * kWindowElements;
    weigher.Add(window_begin, std::span<const uint16_t>(window.positions).first(window.count), window.olds.data(),
                window.xors.data(), &digest);
    XORBIT_RETURN_IF_ERROR(Deliver(checkpoint, *input.map, window, window_begin, &positions, sink));
    totals.change_count += window.count;
  }
  totals.change = digest.change();
  return totals;
}

Status StreamInput(const Checkpoint& checkpoint, const PatchInput& input, std::span<const uint64_t> tensor_keys, int threads,
                   Progress* progress, PatchSink* sink, PatchTotals* totals) {
  const uint64_t window_bytes = kWindowElements * input.map->unit_bytes();
  const uint64_t window_count = WindowCountOf(input.map->element_count());
  const uint64_t stretch_windows = kStretchBytes / window_bytes;
  std::mutex mutex;  // guards *totals
  return ParallelFor(threads, DivideRoundUp(window_count, stretch_windows), [&](uint64_t stretch) -> Status {
    const uint64_t first = stretch * stretch_windows;
    const uint64_t count = std::min(stretch_windows, window_count - first);
    XORBIT_ASSIGN_OR_RETURN(const PatchTotals part, StreamStretch(checkpoint, input, tensor_keys, first, count, sink));
    if (progress != nullptr) progress->done += count * window_bytes;
    const std::lock_guard lock(mutex);
    totals->change_count += part.change_count;
    totals->change += part.change;
    return {};
  });
}

}  // namespace

Result<PatchTotals> StreamPatches(const Checkpoint& checkpoint, const std::vector<PatchInput>& inputs, int threads,
                                  Progress* progress, PatchSink* sink) {
  const std::vector<uint64_t> tensor_keys = TensorKeysOf(checkpoint.layout());
  PatchTotals totals;
  for (const PatchInput& input : inputs) {
    XORBIT_RETURN_IF_ERROR(StreamInput(checkpoint, input, tensor_keys, threads, progress, sink, &totals));
  }
  return totals;
}

}  // namespace xorbit
