#include "backend/cuda/mask/mask_pipeline.h"

#include <algorithm>
#include <string>

#include "backend/cuda/report_of.h"

namespace xorbit::cuda {
namespace {

const char* WhyOf(FrameError error) {
  switch (error) {
    case FrameError::kTruncated:
      return "ends inside a token";
    case FrameError::kLength:
      return "does not decode to its length";
    case FrameError::kDistance:
      return "copies from before its start";
    case FrameError::kOverrun:
      return "decodes to more than its length";
    case FrameError::kWrongContent:
      return "was decoded to other bytes than before";
    case FrameError::kCount:
      return "does not have as many changes as it states";
    default:
      return "has an unknown error";
  }
}

Status StatusOfFrames(const MaskPlan& plan, std::span<const PayloadCounters> counters) {
  for (const PayloadCounters& counter : counters) {
    if (counter.first_corrupt == kNoReport) continue;
    const uint64_t frame_index = plan.frame_of_tile[counter.first_corrupt >> 8];
    return CorruptError(plan.NameOf(frame_index) + " " + WhyOf(static_cast<FrameError>(counter.first_corrupt & 0xff)));
  }
  return {};
}

}  // namespace

Status StatusOfMaskReports(const MaskPlan& plan, std::span<const PayloadCounters> counters) {
  XORBIT_RETURN_IF_ERROR(StatusOfFrames(plan, counters));
  return StatusOfReports(plan.update, counters);
}

Status MaskPipeline::Run(MaskPass pass, FrameDecoder* decoder, MaskFindings* findings) {
  const auto run = [&]() -> Status {
    XORBIT_RETURN_IF_ERROR(device_->Begin());
    const std::span<const MaskBatch> batches = device_->batches();
    // Each batch is decoded before the one before it is used: both are then under way at once.
    for (size_t i = 0; i <= batches.size(); ++i) {
      const auto slot_of = [&](size_t batch) { return static_cast<uint32_t>(batch % device_->slot_count()); };
      if (i < batches.size()) XORBIT_RETURN_IF_ERROR(device_->Decode(batches[i], slot_of(i), decoder));
      if (i > 0) XORBIT_RETURN_IF_ERROR(device_->Update(batches[i - 1], slot_of(i - 1), pass, *decoder));
    }
    return device_->Finish(findings);
  };
  Status status = run();
  if (status.ok()) return status;
  XORBIT_RETURN_IF_ERROR(device_->Drain());
  return status;
}

Status MaskPipeline::Preflight(MaskFindings* findings) {
  XORBIT_RETURN_IF_ERROR(Run(MaskPass::kPreflight, decoders_.front(), findings));
  return StatusOfFrames(*plan_, findings->counters);
}

Status MaskPipeline::Apply() {
  MaskFindings findings;
  Status status = Run(MaskPass::kApply, decoders_.front(), &findings);
  if (status.ok()) status = StatusOfMaskReports(*plan_, findings.counters);
  if (status.ok()) return status;
  XORBIT_RETURN_IF_ERROR(TakeBack());
  return status;
}

Status MaskPipeline::TakeBack() {
  Status status;
  is_lost_ = true;  // until every frame is known to be out
  for (FrameDecoder* decoder : decoders_) {
    MaskFindings findings;
    status = Run(MaskPass::kUndo, decoder, &findings);
    if (!status.ok()) continue;
    // A frame that fails now fails safely: it stays applied, and the next decoder takes it back.
    status = StatusOfMaskReports(*plan_, findings.counters);
    const bool has_miscounted = std::ranges::any_of(findings.counters, [](const PayloadCounters& counter) {
      return counter.first_corrupt != kNoReport && (counter.first_corrupt & 0xff) == static_cast<uint64_t>(FrameError::kCount);
    });
    if (findings.applied_frames > 0 || has_miscounted) continue;
    is_lost_ = false;
    return {};
  }
  if (status.ok()) status = IoError("some frames could not be taken back");
  return status.WithContext("undo failed, reload the weights");
}

}  // namespace xorbit::cuda
