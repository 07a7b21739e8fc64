// The order in which an update of mask codecs runs: batches decoded into slots in turn, each used while the next is decoded,
// and what happens when anything goes wrong. Knows no CUDA, so that faults are tested on any machine.
//
// A mask goes into live memory only if it is what pre-flight saw, by its decoder's word or, where that is not enough, by its
// hash; and the device keeps for each frame whether its changes are in. So taking back means: decode again, XOR the frames that
// are in. Should that decoder fail, the next one takes back the rest.
#pragma once

#include <span>
#include <vector>

#include "backend/cuda/mask/frame_decoder.h"
#include "backend/cuda/mask/mask_plan.h"
#include "backend/prepared_update.h"

namespace xorbit::cuda {

// What a pass over all batches found.
struct MaskFindings {
  std::vector<PayloadCounters> counters;
  uint64_t applied_frames = 0;
};

// What the pipeline needs of a device. Decode and Update return before the work is done; what they put off is in order where it
// has to be: a batch's Update after its Decode, a Decode after the Updates of the batches that used its slot before.
class MaskDevice {
 public:
  MaskDevice() = default;
  MaskDevice(const MaskDevice&) = delete;
  MaskDevice& operator=(const MaskDevice&) = delete;
  virtual ~MaskDevice() = default;

  virtual std::span<const MaskBatch> batches() const = 0;
  virtual uint32_t slot_count() const = 0;
  // Before the first batch of a pass: clears what it adds up.
  virtual Status Begin() = 0;
  virtual Status Decode(const MaskBatch& batch, uint32_t slot, FrameDecoder* decoder) = 0;
  virtual Status Update(const MaskBatch& batch, uint32_t slot, MaskPass pass, const FrameDecoder& decoder) = 0;
  // After the last batch: waits for everything. The findings are the pass's.
  virtual Status Finish(MaskFindings* findings) = 0;
  // After a failure: waits for whatever was begun.
  virtual Status Drain() = 0;
};

// One thread at a time. Everything that it is made from outlives it.
class MaskPipeline {
 public:
  // decoders: at least one. The first that can is used, the others, whose word is enough, where it fails to take back.
  MaskPipeline(const MaskPlan& plan, MaskDevice* device, std::span<FrameDecoder* const> decoders)
      : plan_(&plan), device_(device), decoders_(decoders.begin(), decoders.end()) {}

  // Decodes everything and compares it with live memory, which is only read. kCorrupt: frames lie, kRefused as
  // Backend::Prepare; any other failure is the decoder's or the device's. The findings' sums of tiles are for the caller to
  // compare.
  Status Preflight(MaskFindings* findings);
  // After a pre-flight. On failure live memory is as it was, unless is_lost(): then it must be reloaded.
  Status Apply();
  // Likewise; success if nothing was applied.
  Status TakeBack();
  bool is_lost() const { return is_lost_; }

  // Which decoder pre-flight ran with.
  FrameDecoder& decoder() const { return *decoders_.front(); }

 private:
  Status Run(MaskPass pass, FrameDecoder* decoder, MaskFindings* findings);

  const MaskPlan* plan_;
  MaskDevice* device_;
  std::vector<FrameDecoder*> decoders_;
  bool is_lost_ = false;
};

// What tiles and frames reported: success if none did. Names the payload's frame, or the live tensor.
Status StatusOfMaskReports(const MaskPlan& plan, std::span<const PayloadCounters> counters);

}  // namespace xorbit::cuda
