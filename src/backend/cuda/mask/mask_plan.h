// Everything about an update of mask codecs that is known before its frames are decoded: frames, their tiles in live memory,
// batches. Pure.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/cuda/mask/masks_on_device.h"
#include "backend/cuda/update_plan.h"
#include "codec/mask_decoder.h"

namespace xorbit::cuda {

bool IsMaskCodec(CodecId codec);

// The frames of one segment. Parallel to MaskPlan::update.segments.
struct FrameSegment {
  EncodedSegmentView view;
  std::unique_ptr<MaskDecoder> decoder;
  uint64_t first_frame = 0;  // of the plan's frames
  uint64_t inner_bytes = 0;  // of all of them
};

struct MaskPlan {
  InnerKind kind = InnerKind::kSnappy;
  std::vector<PayloadView> tiled;  // the payloads, their records replaced by tiles of masks
  std::vector<Buffer> records;     // what `tiled` points to
  UpdatePlan update;               // of `tiled`
  std::vector<FrameSegment> segments;
  std::vector<FrameOnDevice> frames;  // without their bytes and their places in slots
  std::vector<uint32_t> frame_of_tile;
  uint64_t mask_bytes = 0;
  uint64_t inner_bytes = 0;  // of all frames

  FrameRecord RecordOf(uint64_t frame_index) const;
  // "frame N", counted in its segment.
  std::string NameOf(uint64_t frame_index) const;
};

// Payloads, layout and map must outlive the plan; `places` as for PlanUpdate. kCorrupt where the codec's Open says so;
// kUnsupported unless all payloads have mask codecs of one inner kind.
Result<std::unique_ptr<MaskPlan>> PlanMasks(const Layout& layout, std::span<const PayloadView> payloads, const LiveMap& map,
                                            std::span<const RegionBounds> places);

// Cuts the frames into batches whose masks fit in a slot of `slot_bytes`, which holds any of them, and sets their places there.
std::vector<MaskBatch> PlanBatches(uint64_t slot_bytes, MaskPlan* plan);

}  // namespace xorbit::cuda
