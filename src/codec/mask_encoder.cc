#include "codec/mask_encoder.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "base/checked_math.h"
#include "base/object_pool.h"
#include "base/parallel.h"
#include "codec/frame_encoder.h"
#include "codec/mask_format.h"
#include "codec/mask_frames.h"
#include "codec/mask_outer.h"

namespace xorbit {
namespace {

// A stretch is what one thread encodes at a time: long enough that the windows it shares with its neighbours, which are read by
// both, are few; short enough that a batch of worst-case stretches fits in memory.
constexpr uint64_t kStretchMaskBytes = uint64_t{8} << 20;
constexpr uint64_t kStretchesPerThread = 4;

Status CheckOptions(const EncodeOptions& options, uint32_t unit_bytes) {
  if (options.frame_bytes > kMaxFrameBytes) {
    return UsageError("frames of " + std::to_string(options.frame_bytes) + " bytes are longer than readers accept (" +
                      std::to_string(kMaxFrameBytes) + ")");
  }
  if (options.frame_bytes == 0 || options.frame_bytes % unit_bytes != 0) {
    return UsageError("frames of " + std::to_string(options.frame_bytes) + " bytes do not hold whole elements of " +
                      std::to_string(unit_bytes));
  }
  return {};
}

void AppendFrames(const EncodedStretch& stretch, uint64_t inner_offset, EncodedSegment* segment) {
  for (FrameRecord record : stretch.frames) {
    record.inner_offset += inner_offset;
    AppendLe(segment->records, record);
  }
  segment->record_count += stretch.frames.size();
  segment->change_count += stretch.change_count;
  segment->change += stretch.digest.change();
}

// Body offsets at which readers may cut: after each inner frame, or after each outer chunk.
std::vector<uint64_t> CutsOf(const EncodedSegment& segment, bool has_outer) {
  std::vector<uint64_t> cuts;
  if (has_outer) {
    for (uint64_t at = 0; at < segment.outer.size(); at += sizeof(OuterRecord)) {
      const auto record = LoadLe<OuterRecord>(segment.outer.data() + at);
      cuts.push_back(record.offset + record.encoded_bytes);
    }
  } else {
    for (uint64_t at = 0; at < segment.records.size(); at += sizeof(FrameRecord)) {
      const auto record = LoadLe<FrameRecord>(segment.records.data() + at);
      cuts.push_back(record.inner_offset + record.inner_bytes);
    }
  }
  return cuts;
}

}  // namespace

Result<EncodedSegment> EncodeMask(const InnerCodec& inner, bool has_outer, const SegmentMap& map,
                                  std::span<const uint64_t> tensor_keys, const ChangeSource& source,
                                  const EncodeOptions& options) {
  EncodedSegment segment;
  segment.has_digests = source.has_values();
  if (map.element_count() == 0) return segment;
  XORBIT_RETURN_IF_ERROR(CheckOptions(options, map.unit_bytes()));
  const FrameJob job = {&inner, &map, tensor_keys, &source, options.frame_bytes / map.unit_bytes(), options.zstd_level};
  const std::vector<ElementRange> stretches =
      FrameGrid(map, job.frame_elements).Stretches(kStretchMaskBytes / map.unit_bytes());
  OuterCompressor outer(options.zstd_level, options.threads);
  ObjectPool<FrameScratch> scratches([&] { return MakeFrameScratch(job); });
  uint64_t inner_offset = 0;
  // Batch by batch, in order: the threads meet after each batch, so that memory stays bounded and bytes do not depend on them.
  const uint64_t batch_count = kStretchesPerThread * static_cast<uint64_t>(std::max(options.threads, 1));
  for (uint64_t done = 0; done < stretches.size(); done += batch_count) {
    std::vector<EncodedStretch> batch(std::min<uint64_t>(batch_count, stretches.size() - done));
    XORBIT_RETURN_IF_ERROR(ParallelFor(options.threads, batch.size(), [&](uint64_t index) -> Status {
      XORBIT_ASSIGN_OR_RETURN(batch[index], EncodeStretch(job, stretches[done + index], scratches.Borrow().get()));
      return {};
    }));
    std::vector<Buffer> pieces;
    for (EncodedStretch& stretch : batch) {
      AppendFrames(stretch, inner_offset, &segment);
      inner_offset += stretch.inner_bytes;
      std::move(stretch.inner.begin(), stretch.inner.end(), std::back_inserter(pieces));
    }
    if (has_outer) {
      XORBIT_RETURN_IF_ERROR(outer.Add(std::move(pieces)));
    } else {
      std::move(pieces.begin(), pieces.end(), std::back_inserter(segment.body));
    }
  }
  if (has_outer) {
    XORBIT_RETURN_IF_ERROR(outer.Finish());
    segment.outer = outer.TakeRecords();
    segment.body = outer.TakeChunks();
  }
  segment.cuts = CutsOf(segment, has_outer);
  return segment;
}

}  // namespace xorbit
