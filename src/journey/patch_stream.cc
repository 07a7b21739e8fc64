#include "journey/patch_stream.h"

#include <algorithm>

#include "backend/backend.h"
#include "base/checked_math.h"
#include "base/parallel.h"
#include "codec/change_digest.h"

namespace xorbit {
namespace {

// Bytes of tensor that one worker prepares before they are delivered: enough that decoding a record at a stretch's border twice
// does not matter, few enough that even windows that change everywhere stay small for all workers together.
constexpr uint64_t kStretchBytes = uint64_t{4} << 20;

struct Stretch {
  std::vector<WindowChanges> windows;
  ChangeDigest digest;
};

// Keeps only what a window holds: full-window buffers for every window of a stretch would be 64 times too much.
WindowChanges Compact(const WindowChanges& full, uint32_t unit_bytes) {
  const auto value_bytes = static_cast<ptrdiff_t>(uint64_t{full.count} * unit_bytes);
  return {full.count,
          {full.positions.begin(), full.positions.begin() + full.count},
          {full.xors.begin(), full.xors.begin() + value_bytes},
          {full.olds.begin(), full.olds.begin() + value_bytes}};
}

Status FillStretch(const PatchInput& input, std::span<const uint64_t> tensor_keys, uint64_t first_window, uint64_t window_count,
                   Stretch* stretch) {
  const uint32_t unit_bytes = input.map->unit_bytes();
  WindowChanges full;
  full.Reserve(unit_bytes, /*with_olds=*/true);
  const auto cursor = input.source->Open(first_window, window_count);
  ElementWeigher weigher(*input.map, tensor_keys);
  stretch->windows.clear();
  stretch->digest = {};
  for (uint64_t i = 0; i < window_count; ++i) {
    XORBIT_RETURN_IF_ERROR(cursor->Next(&full));
    const uint64_t window_begin = (first_window + i) * kWindowElements;
    weigher.Add(window_begin, std::span<const uint16_t>(full.positions).first(full.count), full.olds.data(), full.xors.data(),
                &stretch->digest);
    stretch->windows.push_back(Compact(full, unit_bytes));
  }
  return {};
}

// One window as blocks, cut where the window passes from one tensor to the next.
Status Deliver(const Checkpoint& checkpoint, const SegmentMap& map, const WindowChanges& window, uint64_t window_begin,
               PatchSink* sink) {
  const uint32_t unit_bytes = map.unit_bytes();
  std::vector<uint16_t> positions;
  uint32_t i = 0;
  while (i < window.count) {
    const Run run = RunAt(map, window_begin + window.positions[i]);
    const uint64_t run_start = window_begin + window.positions[i];
    const uint64_t run_end = run_start + run.element_count;
    uint32_t end = i;
    positions.clear();
    while (end < window.count && window_begin + window.positions[end] < run_end) {
      positions.push_back(static_cast<uint16_t>(window.positions[end] - window.positions[i]));
      ++end;
    }
    const TensorLocation& location = checkpoint.locations()[run.tensor_index];
    XORBIT_RETURN_IF_ERROR(sink->Add({.file_index = location.file_index,
                                      .unit_bytes = unit_bytes,
                                      .file_offset = location.offset_bytes + run.tensor_element * unit_bytes,
                                      .count = end - i,
                                      .positions = positions.data(),
                                      .olds = window.olds.data() + uint64_t{i} * unit_bytes,
                                      .xors = window.xors.data() + uint64_t{i} * unit_bytes}));
    i = end;
  }
  return {};
}

Status StreamInput(const Checkpoint& checkpoint, const PatchInput& input, std::span<const uint64_t> tensor_keys, int threads,
                   Progress* progress, PatchSink* sink, PatchTotals* totals) {
  const uint64_t window_count = WindowCountOf(input.map->element_count());
  const uint64_t stretch_windows = kStretchBytes / (kWindowElements * input.map->unit_bytes());
  const uint64_t round_windows = stretch_windows * static_cast<uint64_t>(threads);
  std::vector<Stretch> stretches(static_cast<size_t>(threads));
  for (uint64_t round = 0; round < window_count; round += round_windows) {
    const uint64_t in_round = std::min(round_windows, window_count - round);
    const uint64_t stretch_count = DivideRoundUp(in_round, stretch_windows);
    XORBIT_RETURN_IF_ERROR(ParallelFor(threads, stretch_count, [&](uint64_t s) {
      const uint64_t first = s * stretch_windows;
      return FillStretch(input, tensor_keys, round + first, std::min(stretch_windows, in_round - first), &stretches[s]);
    }));
    for (uint64_t s = 0; s < stretch_count; ++s) {
      for (size_t i = 0; i < stretches[s].windows.size(); ++i) {
        const WindowChanges& window = stretches[s].windows[i];
        const uint64_t window_begin = (round + s * stretch_windows + i) * kWindowElements;
        XORBIT_RETURN_IF_ERROR(Deliver(checkpoint, *input.map, window, window_begin, sink));
        totals->change_count += window.count;
      }
      totals->change += stretches[s].digest.change();
    }
    if (progress != nullptr) progress->done += in_round * kWindowElements * input.map->unit_bytes();
  }
  return {};
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
