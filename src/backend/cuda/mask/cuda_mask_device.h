// The device that a mask update runs on: its tables, slots, streams, and the events between them.
//
// Each slot has a stream to decode in, so that a batch begins while the last frames of the one before are decoded: each of
// these keeps but one warp busy. Tiles are XORed in a stream of their own.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/mask/batch_times.h"
#include "backend/cuda/mask/mask_kernels.h"
#include "backend/cuda/mask/mask_pipeline.h"
#include "backend/cuda/staged_update.h"

namespace xorbit::cuda {

inline constexpr uint32_t kMostSlots = 4;

// Memory for the masks of some batches at a time.
struct MaskSlots {
  MutableBytes memory;  // device
  uint32_t count = 2;   // 2 to kMostSlots
  uint64_t slot_bytes() const { return memory.size() / count / kMaskAlignment * kMaskAlignment; }
};

class CudaMaskDevice final : public MaskDevice {
 public:
  // Puts the plan's tables on the current device. `plan` and, in device or pinned memory, its inner frames outlive it.
  static Result<std::unique_ptr<CudaMaskDevice>> Make(MaskPlan* plan, const StageOptions& options);

  // Cuts the plan into batches for these slots, whose memory stays the caller's. kUsage if they are too small or too many.
  // From the next pass on.
  Status UseSlots(const MaskSlots& slots);
  // From the next pass on nobody serves: no throttle, and XORs get the first block that is free, or they would wait until the
  // next batch's last frame has begun.
  Status LeaveServing();

  // From the next pass on. Null: nothing is measured.
  void SetSpans(SpanLog* spans) { spans_ = spans; }

  uint64_t byte_count() const { return tables_.byte_count() + memory_.byte_count() + groups_.byte_count(); }
  // Waits, and reads what a pre-flight left: every tile's sums, and what the names of tied tensors change.
  Result<std::vector<TileSums>> ReadCountedSums() const { return staged_.ReadCountedSums(updates_.get()); }
  Result<std::vector<TieOnDevice>> ReadTies() const { return staged_.ReadTies(updates_.get()); }

  std::span<const MaskBatch> batches() const override { return batches_; }
  uint32_t slot_count() const override { return slots_.count; }
  Status Begin() override;
  Status Decode(const MaskBatch& batch, uint32_t slot, FrameDecoder* decoder) override;
  Status Update(const MaskBatch& batch, uint32_t slot, MaskPass pass, const FrameDecoder& decoder) override;
  Status Finish(MaskFindings* findings) override;
  Status Drain() override;

 private:
  CudaMaskDevice() = default;
  uint8_t* SlotAt(uint32_t slot) const { return slots_.memory.data() + slot * slots_.slot_bytes(); }
  uint32_t* GroupsAt(uint32_t slot) const {
    return reinterpret_cast<uint32_t*>(groups_.data_dev()) + slot * slots_.slot_bytes() / kGroupWordBytes;
  }
  Status Bind(const MaskLaunch& launch, const MaskBatch& batch, MaskPass pass) const;

  Status Open(const std::string& row, const MaskBatch& batch, cudaStream_t stream) {
    const auto index = static_cast<uint64_t>(&batch - batches_.data());
    return spans_ == nullptr ? Status() : times_.Begin(row, index, stream);
  }
  Status Close(cudaStream_t stream) { return spans_ == nullptr ? Status() : times_.End(stream); }

  MaskPlan* plan_ = nullptr;
  ServingThrottle throttle_ = ServingThrottle::None();
  std::array<Stream, kMostSlots> decodes_;  // by slot
  Stream updates_;
  std::array<Event, kMostSlots> decoded_;
  std::array<Event, kMostSlots> used_;
  DeviceBuffer tables_;  // of staged_
  StagedUpdate staged_;
  DeviceBuffer memory_;  // of masks_
  DeviceBuffer groups_;  // of all slots
  MasksOnDevice masks_{};
  PinnedBuffer findings_;  // counters, applied_count
  MaskSlots slots_;
  std::vector<MaskBatch> batches_;
  SpanLog* spans_ = nullptr;
  BatchTimes times_;
};

}  // namespace xorbit::cuda
