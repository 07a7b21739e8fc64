#include "backend/cuda/mask/mask_plan.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "base/checked_math.h"

namespace xorbit::cuda {
namespace {

struct MaskCodecParts {
  InnerKind kind;
  const InnerCodec* inner;
  bool has_outer;
};

Result<MaskCodecParts> PartsOf(CodecId codec) {
  switch (codec) {
    case CodecId::kSnappy:
    case CodecId::kSnappyZstd:
      return MaskCodecParts{InnerKind::kSnappy, &SnappyInner(), codec == CodecId::kSnappyZstd};
    case CodecId::kLz4:
    case CodecId::kLz4Zstd:
      return MaskCodecParts{InnerKind::kLz4, &Lz4Inner(), codec == CodecId::kLz4Zstd};
    case CodecId::kZstd:
      return MaskCodecParts{InnerKind::kZstd, &ZstdInner(), false};
    default:
      return UnsupportedError("a payload of the sparse codec cannot be taken in one update with those of a mask codec");
  }
}

// A frame's tiles, as records of raw tiles.
void AddTiles(const FrameRecord& frame, uint32_t unit_bytes, Buffer* records) {
  const uint64_t most = kMaskTileBytes / unit_bytes;
  for (uint64_t at = 0; at < frame.element_count; at += most) {
    TileRecord tile{};
    tile.first = frame.first + at;
    tile.span = static_cast<uint32_t>(std::min<uint64_t>(most, frame.element_count - at) - 1);
    tile.mode = static_cast<uint8_t>(TileMode::kRaw);
    AppendLe(*records, tile);
  }
}

// Opens a segment and replaces its records by tiles.
Status CutSegment(const MaskCodecParts& codec, const PayloadSegment& segment, PayloadSegment* tiled, MaskPlan* plan) {
  FrameSegment frames;
  frames.view = segment.view;
  XORBIT_ASSIGN_OR_RETURN(frames.decoder, MaskDecoder::Open(*codec.inner, codec.has_outer, segment.map, segment.view));
  frames.first_frame = plan->frames.size();
  const uint32_t unit_bytes = segment.map.unit_bytes();
  Buffer records;
  for (uint64_t i = 0; i < segment.view.record_count; ++i) {
    const FrameRecord record = frames.decoder->frame(i);
    FrameOnDevice frame{};
    frame.inner_bytes = record.inner_bytes;
    frame.mask_bytes = record.element_count * unit_bytes;
    frame.first = record.first;
    frame.first_tile = plan->frame_of_tile.size();
    frame.segment_index = static_cast<uint32_t>(plan->segments.size());
    frame.change_count = record.change_count;
    AddTiles(record, unit_bytes, &records);
    plan->frame_of_tile.insert(plan->frame_of_tile.end(), DivideRoundUp(frame.mask_bytes, kMaskTileBytes),
                               static_cast<uint32_t>(plan->frames.size()));
    plan->frames.push_back(frame);
    plan->mask_bytes += frame.mask_bytes;
    frames.inner_bytes += record.inner_bytes;
  }
  plan->inner_bytes += frames.inner_bytes;
  plan->records.push_back(std::move(records));
  tiled->view.records = plan->records.back();
  tiled->view.record_count = plan->records.back().size() / sizeof(TileRecord);
  tiled->view.tables = {};
  tiled->view.outer = {};
  tiled->view.body = {};
  plan->segments.push_back(std::move(frames));
  return {};
}

}  // namespace

bool IsMaskCodec(CodecId codec) { return codec != CodecId::kSparse; }

FrameRecord MaskPlan::RecordOf(uint64_t frame_index) const {
  const FrameSegment& segment = segments[frames[frame_index].segment_index];
  return segment.decoder->frame(frame_index - segment.first_frame);
}

std::string MaskPlan::NameOf(uint64_t frame_index) const {
  return "frame " + std::to_string(frame_index - segments[frames[frame_index].segment_index].first_frame);
}

Result<std::unique_ptr<MaskPlan>> PlanMasks(const Layout& layout, std::span<const PayloadView> payloads, const LiveMap& map,
                                            std::span<const RegionBounds> places) {
  auto plan = std::make_unique<MaskPlan>();
  plan->tiled.assign(payloads.begin(), payloads.end());
  for (size_t p = 0; p < payloads.size(); ++p) {
    XORBIT_ASSIGN_OR_RETURN(const MaskCodecParts codec, PartsOf(payloads[p].info.codec));
    if (p > 0 && codec.kind != plan->kind) {
      return UnsupportedError("payloads of different inner codecs cannot be taken in one update on a device");
    }
    plan->kind = codec.kind;
    for (size_t s = 0; s < payloads[p].segments.size(); ++s) {
      const PayloadSegment& segment = payloads[p].segments[s];
      if (segment.view.record_count == 0) continue;
      XORBIT_RETURN_IF_ERROR(CutSegment(codec, segment, &plan->tiled[p].segments[s], plan.get()));
    }
  }
  XORBIT_ASSIGN_OR_RETURN(plan->update, PlanUpdate(layout, plan->tiled, map, places, TileSource::kMasks));
  assert(plan->update.segments.size() == plan->segments.size());
  assert(plan->update.tile_count == plan->frame_of_tile.size());
  return plan;
}

std::vector<MaskBatch> PlanBatches(uint64_t slot_bytes, MaskPlan* plan) {
  std::vector<MaskBatch> batches;
  uint64_t used_bytes = 0;
  for (uint64_t i = 0; i < plan->frames.size(); ++i) {
    FrameOnDevice& frame = plan->frames[i];
    const uint64_t place_bytes = DivideRoundUp(frame.mask_bytes, kMaskAlignment) * kMaskAlignment;
    if (batches.empty() || place_bytes > slot_bytes - used_bytes) {
      if (!batches.empty()) batches.back().tile_end = frame.first_tile;
      batches.push_back({i, i, frame.first_tile, frame.first_tile, 0});
      used_bytes = 0;
    }
    frame.slot_offset = used_bytes;
    used_bytes += place_bytes;
    batches.back().frame_end = i + 1;
    batches.back().slot_bytes = used_bytes;
  }
  if (!batches.empty()) batches.back().tile_end = plan->frame_of_tile.size();
  return batches;
}

}  // namespace xorbit::cuda
