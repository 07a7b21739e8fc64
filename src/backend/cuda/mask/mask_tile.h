// What one warp does with one tile of a mask in a slot, and what becomes of frames before and after it.
#pragma once

#include "backend/cuda/binding_tile.h"
#include "backend/cuda/mask/mask_walk.h"

namespace xorbit::cuda {

struct MaskTask {
  const UpdateOnDevice* update;
  const SegmentOnDevice* segment;
  uint64_t tile_index;
  uint64_t report_index;  // of the tile under which its frame reports: the frame's first
  FrameState* state;
  const uint8_t* mask;
  const uint32_t* groups;  // or null
  uint32_t byte_count;
  MaskQueues* queues;
  TileContext context;
};

XORBIT_DEVICE MaskTask MakeMaskTask(const UpdateOnDevice& update, const MasksOnDevice& masks, uint64_t tile_index,
                                    MaskSlot slot, MaskQueues* queues, const uint64_t* word_factors) {
  const uint32_t frame_index = masks.frame_of_tile[tile_index];
  const FrameOnDevice& frame = masks.frames[frame_index];
  const SegmentOnDevice& segment = update.segments[frame.segment_index];
  const TileRecord record = segment.records[tile_index - segment.first_tile];
  MaskTask task{};
  task.update = &update;
  task.segment = &segment;
  task.tile_index = tile_index;
  task.report_index = frame.first_tile;
  task.state = masks.states + frame_index;
  const uint64_t place = frame.slot_offset + (record.first - frame.first) * segment.unit_bytes;
  task.mask = slot.masks + place;
  task.groups = slot.groups == nullptr ? nullptr : slot.groups + place / kGroupWordBytes;
  task.byte_count = (record.span + 1) * segment.unit_bytes;
  task.queues = queues;
  task.context = {&update, &segment, record, update.starts[tile_index], word_factors};
  return task;
}

template <typename Findings>
struct MaskOutcome {
  Findings found{};
  uint32_t change_count = 0;
};

XORBIT_DEVICE void AddTo(PreflightFindings* sum, const PreflightFindings& found) { sum->Add(found); }
XORBIT_DEVICE void AddTo(ApplyFindings* sum, const ApplyFindings& found) {
  sum->sum += found.sum;
  sum->misfits |= found.misfits;
}

template <typename Unit, typename Visitor, typename Findings>
XORBIT_DEVICE MaskOutcome<Findings> WalkMask(const MaskTask& task) {
  MaskOutcome<Findings> outcome;
  MaskScan<Unit> scan(task.mask, task.byte_count, task.groups, task.queues);
  while (!scan.is_done()) {
    const uint32_t count = scan.NextPortion();
    if (count == 0) continue;
    Visitor visitor(task.context);
    VisitQueued<Unit>(task.mask, task.queues->changes.data(), count, &visitor);
    AddTo(&outcome.found, visitor.Finish());
    outcome.change_count += count;
  }
  return outcome;
}
template <typename Unit, typename Visitor, typename Findings>
XORBIT_DEVICE_RARE MaskOutcome<Findings> WalkSpreadMask(MaskTask task) {
  return WalkMask<Unit, Visitor, Findings>(task);
}

// What is wrong with live memory under a tile; sums of whole frames are the host's to compare.
template <typename Unit>
XORBIT_DEVICE TileError CompareMaskTile(const MaskTask& task, const MaskOutcome<PreflightFindings>& outcome) {
  if (task.segment->is_absent != 0) return TileError::kNone;
  if (outcome.found.replicas_differ) return TileError::kReplica;
  if (task.update->partial != 0) return TileError::kNone;
  const bool is_complete = outcome.found.counted_bits == outcome.change_count * static_cast<uint32_t>(8 * sizeof(Unit));
  return is_complete ? TileError::kNone : TileError::kIncomplete;
}

template <typename Unit>
XORBIT_DEVICE void PreflightMaskTile(const MaskTask& task) {
  if (task.state->is_open == 0) return;
  const auto outcome = task.context.start.box_index == kNoBox
                           ? WalkSpreadMask<Unit, SpreadPreflight<Unit, false>, PreflightFindings>(task)
                           : WalkMask<Unit, BoxPreflight<Unit, false>, PreflightFindings>(task);
  if (Lane() != 0) return;
  const PreflightFindings& found = outcome.found;
  PayloadCounters& counters = task.update->counters[task.segment->payload_index];
  task.update->local_sums[task.tile_index] = found.local;
  task.update->counted_sums[task.tile_index] = found.counted;
  AtomicAdd(&task.state->seen_changes, outcome.change_count);
  AtomicAdd(&counters.local_change_count, found.local_bits / (8 * sizeof(Unit)));
  AtomicAdd(&counters.lane0_change, found.counted.after - found.counted.before);
  AtomicAdd(&counters.lane1_change, found.lane1_change);
  const TileError refused = CompareMaskTile<Unit>(task, outcome);
  if (refused != TileError::kNone) ReportTile(&counters.first_refused, task.report_index, refused);
}

// kKind: kReturningXor to apply, kXor to undo.
template <typename Unit, ApplyKind kKind>
XORBIT_DEVICE void XorMaskTile(const MaskTask& task) {
  if (task.state->is_open == 0) return;
  const auto outcome = task.context.start.box_index == kNoBox
                           ? WalkSpreadMask<Unit, SpreadApply<Unit, kKind>, ApplyFindings>(task)
                           : WalkMask<Unit, BoxApply<Unit, kKind>, ApplyFindings>(task);
  if (Lane() != 0) return;
  AtomicAdd(&task.state->seen_changes, outcome.change_count);
  // By the launch that does it, so that none of the two is without the other.
  if (task.tile_index == task.report_index) task.state->is_applied = kKind == ApplyKind::kReturningXor ? 1 : 0;
  if constexpr (kKind == ApplyKind::kReturningXor) {
    if (outcome.found.sum == task.update->local_sums[task.tile_index].before) return;
    PayloadCounters& counters = task.update->counters[task.segment->payload_index];
    ReportTile(&counters.first_refused, task.report_index, TileError::kDigest);
  }
}

// The step of shadows and aliases that goes with a pass, after it.
template <typename Unit>
XORBIT_DEVICE void BindMaskTile(const MaskTask& task, const BindingsOnDevice& bindings, BindingStep step) {
  if (task.state->is_open == 0) return;
  BindingVisitor<Unit> visitor(task.context, bindings, step);
  MaskScan<Unit> scan(task.mask, task.byte_count, task.groups, task.queues);
  while (!scan.is_done()) VisitQueued<Unit>(task.mask, task.queues->changes.data(), scan.NextPortion(), &visitor);
  const bool misfits = visitor.Finish();
  if (Lane() != 0 || !misfits) return;
  PayloadCounters& counters = task.update->counters[task.segment->payload_index];
  ReportTile(&counters.first_refused, task.report_index,
             step == BindingStep::kCheck ? TileError::kReplica : TileError::kDigest);
}

// Adds to the frame's hash of its mask: over vectors that are not zero, by their place.
XORBIT_DEVICE void HashMaskTile(const MaskTask& task, uint64_t first_byte) {
  constexpr uint32_t kAtOnce = 4;
  uint64_t hash = 0;
  for (uint32_t begin = Lane() * kVectorBytes; begin < task.byte_count; begin += kAtOnce * kWarpLanes * kVectorBytes) {
    WordVector vectors[kAtOnce];
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      vectors[i] = MaskVectorAt(task.mask, begin + i * kWarpLanes * kVectorBytes, task.byte_count);
    }
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (vectors[i].is_zero()) continue;
      const uint64_t place = first_byte + begin + i * kWarpLanes * kVectorBytes;
      const uint64_t low = uint64_t{vectors[i].words[1]} << 32 | vectors[i].words[0];
      const uint64_t high = uint64_t{vectors[i].words[3]} << 32 | vectors[i].words[2];
      hash += SplitMix64(SplitMix64(SplitMix64(place) ^ low) ^ high);
    }
  }
  hash = WarpSum(hash);
  if (Lane() == 0 && hash != 0) AtomicAdd(&task.state->seen_hash, hash);
}

XORBIT_DEVICE void ReportFrame(const UpdateOnDevice& update, const FrameOnDevice& frame, FrameError error) {
  const SegmentOnDevice& segment = update.segments[frame.segment_index];
  AtomicMin(&update.counters[segment.payload_index].first_corrupt, frame.first_tile << 8 | static_cast<uint64_t>(error));
}

// One lane, between a frame's decoding and the pass over its tiles: opens it to the pass if it may be used. needs_proof: its
// decoder's word is not enough, so its hash has been summed.
XORBIT_DEVICE void OpenFrame(const UpdateOnDevice& update, const MasksOnDevice& masks, uint64_t frame_index, MaskPass pass,
                             bool needs_proof) {
  const FrameOnDevice& frame = masks.frames[frame_index];
  FrameState& state = masks.states[frame_index];
  auto error = static_cast<FrameError>(state.decoding_error);
  if (error == FrameError::kNone && masks.decoded_bytes[frame_index] != frame.mask_bytes) error = FrameError::kLength;
  if (needs_proof && pass == MaskPass::kPreflight) state.hash = state.seen_hash;
  if (needs_proof && error == FrameError::kNone && state.hash != state.seen_hash) error = FrameError::kWrongContent;
  const bool is_wanted = pass == MaskPass::kPreflight || (state.is_applied != 0) == (pass == MaskPass::kUndo);
  state.is_open = error == FrameError::kNone && is_wanted ? 1 : 0;
  state.seen_hash = 0;
  state.seen_changes = 0;
  if (error != FrameError::kNone) ReportFrame(update, frame, error);
}

// One lane, when all passes over a frame have ended.
XORBIT_DEVICE void AuditFrame(const UpdateOnDevice& update, const MasksOnDevice& masks, uint64_t frame_index) {
  const FrameOnDevice& frame = masks.frames[frame_index];
  const FrameState& state = masks.states[frame_index];
  if (state.is_applied != 0) AtomicAdd(masks.applied_count, uint64_t{1});
  if (state.is_open != 0 && state.seen_changes != frame.change_count) ReportFrame(update, frame, FrameError::kCount);
}

}  // namespace xorbit::cuda
