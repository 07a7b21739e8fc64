// What a mask update takes beside its tables: inner frames, the buffers by which they come, and slots. The next update may have
// it all.
//
// Frames go where their decoder reads them best: on the device, by two small page-locked buffers in turn, so that undoing Zstd
// and the bus run side by side; or, for an engine, the CPU, or want of room, into page-locked memory that holds all of them.
#pragma once

#include <array>

#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/mask/decoders.h"
#include "backend/cuda/mask/host_inner.h"
#include "backend/cuda/mask/mask_plan.h"
#include "backend/prepared_update.h"

namespace xorbit::cuda {

class MaskMemory final : public KeptMemory {
 public:
  explicit MaskMemory(int device) : device_(device) {}
  // What `kept` holds of this device, or nothing yet. kept: may be null.
  static std::unique_ptr<MaskMemory> From(std::unique_ptr<KeptMemory>* kept, int device);

  uint64_t byte_count() const override;

  // Stages the plan's inner frames and lets the plan point to them. Waits. kUnsupported if they need more host memory than
  // allowed; kCorrupt as StageInner.
  Status StageFrames(const PrepareOptions& options, const DecoderChoice& choice, MaskPlan* plan);
  // Memory for the plan's masks: half as large as long as the device has no room; never larger than the plan needs.
  Result<MutableBytes> Slots(const MaskOptions& options, const MaskPlan& plan);
  void ReleaseSlots() { slots_ = {}; }

 private:
  class Pieces;

  Status StageOnHost(const PrepareOptions& options, const DecoderChoice& choice, MaskPlan* plan);
  Status StageOnDevice(const PrepareOptions& options, MaskPlan* plan);
  Result<bool> HasRoomFor(uint64_t inner_bytes);

  int device_;
  HostInner inner_host_;                     // one of these two holds the frames
  const DriverApi* inner_engine_ = nullptr;  // that reads inner_host_
  DeviceBuffer inner_dev_;
  std::array<PinnedBuffer, 2> pieces_;
  DeviceBuffer slots_;
};

}  // namespace xorbit::cuda
