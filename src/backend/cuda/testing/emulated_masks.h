// A mask update and its live memory on the host: the device that a pipeline runs on, with every kernel's work on emulated
// warps, and decoders for it. No product code includes it.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/mask/frame_decode.h"
#include "backend/cuda/mask/inner_staging.h"
#include "backend/cuda/mask/mask_pipeline.h"
#include "backend/cuda/mask/mask_tile.h"
#include "backend/cuda/testing/warp_emulator.h"
#include "base/unit.h"

namespace xorbit::cuda::testing {

// Our kernels, lane by lane.
class EmulatedDecoder final : public FrameDecoder {
 public:
  std::string_view name() const override { return "kernels"; }
  bool marks_groups() const override { return true; }
  bool needs_proof() const override { return false; }
  Status Submit(const DecodeJob& job) override {
    if (job.kind == InnerKind::kZstd) return UnsupportedError("our kernels do not read Zstd frames");
    for (size_t i = 0; i < job.frames.size(); ++i) {
      const FrameOnDevice& frame = job.frames[i];
      uint8_t* mask = job.slot_dev + frame.slot_offset;
      uint32_t* groups = job.groups_dev + frame.slot_offset / kGroupWordBytes;
      if (job.fills_masks) std::fill_n(mask, frame.mask_bytes, uint8_t{0});
      RunWarp([&] {
        const FrameError error =
            job.kind == InnerKind::kSnappy
                ? DecodeFrame<InnerKind::kSnappy>(frame.inner, frame.inner_bytes, mask, frame.mask_bytes, groups, ring_.data())
                : DecodeFrame<InnerKind::kLz4>(frame.inner, frame.inner_bytes, mask, frame.mask_bytes, groups, ring_.data());
        if (Lane() != 0) return;
        job.states_dev[i].decoding_error = static_cast<uint32_t>(error);
        job.decoded_bytes_dev[i] = error == FrameError::kNone ? frame.mask_bytes : kNotDecoded;
      });
    }
    return {};
  }

 private:
  std::array<WordVector, kRingBytes / kVectorBytes> ring_{};
};

class EmulatedMasks final : public MaskDevice {
 public:
  // The plan outlives it; its frames are staged here. slot_bytes: a multiple of kMaskAlignment that holds any frame.
  EmulatedMasks(MaskPlan* plan, uint64_t slot_bytes, uint32_t slot_count, Direction direction, bool partial)
      : plan_(plan), slot_bytes_(slot_bytes), slot_count_(slot_count) {
    inner_.resize(InnerStagingBytes(*plan) / kVectorBytes);
    const MutableBytes inner(reinterpret_cast<uint8_t*>(inner_.data()), inner_.size() * kVectorBytes);
    staging_ = StageInner(*plan, {.threads = 1}, inner);
    PlaceInner(inner.data(), plan);
    batches_ = PlanBatches(slot_bytes, plan);
    slots_.resize(slot_bytes / sizeof(WordVector) * slot_count);
    groups_.resize(slot_bytes / kGroupWordBytes * slot_count);
    for (const SegmentPlan& planned : plan->update.segments) {
      SegmentOnDevice segment = planned.device;
      segment.records = reinterpret_cast<const TileRecord*>(planned.segment->view.records.data());
      segment.parts = planned.parts.data();
      segment.boxes = planned.boxes.data();
      starts_.insert(starts_.end(), planned.starts.begin(), planned.starts.end());
      segments_.push_back(segment);
    }
    const uint64_t tile_count = plan->frame_of_tile.size();
    local_sums_.resize(tile_count);
    counted_sums_.resize(tile_count);
    states_.resize(plan->frames.size());
    decoded_bytes_.resize(plan->frames.size());
    ties_ = plan->update.ties;
    counters_.resize(plan->tiled.size());
    update_.segments = segments_.data();
    update_.starts = starts_.data();
    update_.local_sums = local_sums_.data();
    update_.counted_sums = counted_sums_.data();
    update_.digits = plan->update.digits.data();
    update_.track_starts = plan->update.live.track_starts.data();
    update_.pieces = plan->update.live.pieces.data();
    update_.classes = plan->update.live.classes.data();
    update_.counters = counters_.data();
    update_.regions = plan->update.live.regions.data();
    update_.inverse = direction == Direction::kInverse ? 1 : 0;
    update_.partial = partial ? 1 : 0;
    masks_ = {plan->frames.data(), plan->frame_of_tile.data(), decoded_bytes_.data(), states_.data(), &applied_count_};
    for (uint32_t i = 0; i < kWordFactorCount; ++i) word_factors_[i] = WordFactorAt(i);
  }

  const Status& staging() const { return staging_; }
  std::span<const TileSums> counted_sums() const { return counted_sums_; }
  std::span<const TieOnDevice> ties() const { return ties_; }
  // Makes the Update of this batch, counted from 0 in each pass, fail once without doing anything.
  void FailUpdate(uint64_t batch) { failing_batch_ = batch; }

  std::span<const MaskBatch> batches() const override { return batches_; }
  uint32_t slot_count() const override { return slot_count_; }

  Status Begin() override {
    counters_.assign(counters_.size(), {kNoReport, kNoReport, 0, 0, 0});
    applied_count_ = 0;
    decoded_bytes_.assign(decoded_bytes_.size(), kNotDecoded);
    for (FrameState& state : states_) state.decoding_error = 0;
    slots_.assign(slots_.size(), WordVector{{~0U, ~0U, ~0U, ~0U}});  // what nobody writes is not to be read
    updated_ = 0;
    return {};
  }
  Status Decode(const MaskBatch& batch, uint32_t slot, FrameDecoder* decoder) override {
    const uint64_t begin = batch.frame_begin;
    std::fill_n(GroupsAt(slot), slot_bytes_ / kGroupWordBytes, 0U);  // nor is it, where nobody marks any
    marks_groups_ = decoder->marks_groups();
    return decoder->Submit({plan_->kind, std::span(plan_->frames).subspan(begin, batch.frame_end - begin),
                            plan_->frames.data() + begin, decoded_bytes_.data() + begin, states_.data() + begin, SlotAt(slot),
                            GroupsAt(slot), false, 0, nullptr});
  }
  Status Update(const MaskBatch& batch, uint32_t slot, MaskPass pass, const FrameDecoder& decoder) override {
    if (updated_++ == failing_batch_) {
      failing_batch_ = kNoReport;
      return IoError("an update fails");
    }
    if (decoder.needs_proof()) {
      ForEachTile(batch, slot, []<typename Unit>(const MaskTask& task, const FrameOnDevice& frame) {
        HashMaskTile(task, (task.context.record.first - frame.first) * sizeof(Unit));
      });
    }
    for (uint64_t i = batch.frame_begin; i < batch.frame_end; ++i) OpenFrame(update_, masks_, i, pass, decoder.needs_proof());
    RunPass(batch, slot, pass);
    const BindingsOnDevice bindings{plan_->update.live.shadows.data(), ties_.data()};
    const BindingStep step = pass == MaskPass::kPreflight ? BindingStep::kCheck : BindingStep::kFollowXor;
    ForEachTile(batch, slot, [&]<typename Unit>(const MaskTask& task, const FrameOnDevice&) {
      if (IsBound(task, pass)) BindMaskTile<Unit>(task, bindings, step);
    });
    return {};
  }
  Status Finish(MaskFindings* findings) override {
    for (uint64_t i = 0; i < states_.size(); ++i) AuditFrame(update_, masks_, i);
    *findings = {counters_, applied_count_};
    return {};
  }
  Status Drain() override { return {}; }

  bool queue_is_intact() const { return queues_.behind == kUntouched; }

 private:
  static constexpr uint16_t kUntouched = 0xa5a5;
  uint8_t* SlotAt(uint32_t slot) { return reinterpret_cast<uint8_t*>(slots_.data()) + slot * slot_bytes_; }

  uint32_t* GroupsAt(uint32_t slot) { return groups_.data() + slot * slot_bytes_ / kGroupWordBytes; }
  MaskSlot PlaceOf(uint32_t slot) { return {SlotAt(slot), marks_groups_ ? GroupsAt(slot) : nullptr}; }

  bool IsBound(const MaskTask& task, MaskPass pass) const {
    const UpdatePlan& update = plan_->update;
    for (const TileRange& range : pass == MaskPass::kPreflight ? update.checked_tiles : update.cast_tiles) {
      const uint64_t first = update.segments[range.segment_index].device.first_tile;
      if (task.tile_index >= first + range.begin && task.tile_index < first + range.end) return true;
    }
    return false;
  }

  // body<Unit>(task, frame) for every tile of a batch, in 32 lanes.
  template <typename Body>
  void ForEachTile(const MaskBatch& batch, uint32_t slot, Body&& body) {
    for (uint64_t tile = batch.tile_begin; tile < batch.tile_end; ++tile) {
      RunWarp([&] {
        const MaskTask task = MakeMaskTask(update_, masks_, tile, PlaceOf(slot), &queues_.queues, word_factors_.data());
        const FrameOnDevice& frame = plan_->frames[plan_->frame_of_tile[tile]];
        WithUnit(task.segment->unit_bytes, [&]<typename Unit>() { body.template operator()<Unit>(task, frame); });
      });
    }
  }

  void RunPass(const MaskBatch& batch, uint32_t slot, MaskPass pass) {
    ForEachTile(batch, slot, [&]<typename Unit>(const MaskTask& task, const FrameOnDevice&) {
      switch (pass) {
        case MaskPass::kPreflight:
          return PreflightMaskTile<Unit>(task);
        case MaskPass::kApply:
          return XorMaskTile<Unit, ApplyKind::kReturningXor>(task);
        default:
          return XorMaskTile<Unit, ApplyKind::kXor>(task);
      }
    });
  }

  MaskPlan* plan_;
  uint64_t slot_bytes_;
  uint32_t slot_count_;
  Status staging_;
  std::vector<WordVector> inner_;
  std::vector<MaskBatch> batches_;
  std::vector<WordVector> slots_;
  std::vector<uint32_t> groups_;
  bool marks_groups_ = false;
  std::vector<SegmentOnDevice> segments_;
  std::vector<TileStart> starts_;
  std::vector<TileSums> local_sums_;
  std::vector<TileSums> counted_sums_;
  std::vector<FrameState> states_;
  std::vector<uint32_t> decoded_bytes_;
  std::vector<TieOnDevice> ties_;
  std::vector<PayloadCounters> counters_;
  uint64_t applied_count_ = 0;
  std::array<uint64_t, kWordFactorCount> word_factors_{};
  struct {
    MaskQueues queues;
    uint16_t behind = kUntouched;  // which nobody writes
  } queues_{};
  UpdateOnDevice update_{};
  MasksOnDevice masks_{};
  uint64_t updated_ = 0;
  uint64_t failing_batch_ = kNoReport;
};

}  // namespace xorbit::cuda::testing
