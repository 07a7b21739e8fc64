#include "codec/mask_encoder.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "base/checked_math.h"
#include "base/object_pool.h"
#include "base/parallel.h"
#include "codec/frame_encoder.h"
#include "codec/mask_frames.h"

namespace xorbit {
namespace {

// A stretch is what one thread encodes at a time: long enough that the windows it shares with its neighbours, which are read by
// both, are few; short enough that a batch of worst-case stretches fits in memory.
constexpr uint64_t kStretchMaskBytes = uint64_t{8} << 20;
constexpr uint64_t kStretchesPerThread = 4;

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

Status CheckFrameBytes(const EncodeOptions& options, uint32_t unit_bytes) {
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

Result<EncodedSegment> EncodeMask(const InnerCodec& inner, bool has_outer, const SegmentMap& map,
                                  std::span<const uint64_t> tensor_keys, const ChangeSource& source,
                                  const EncodeOptions& options) {
  MaskSegmentWriter writer(has_outer, options);
  StateDigest change;
  const auto finish = [&]() -> Result<EncodedSegment> {
    XORBIT_ASSIGN_OR_RETURN(EncodedSegment segment, writer.Finish(change));
    segment.has_digests = source.has_values();
    return segment;
  };
  if (map.element_count() == 0) return finish();
  XORBIT_RETURN_IF_ERROR(CheckFrameBytes(options, map.unit_bytes()));
  const FrameJob job = {&inner, &map, tensor_keys, &source, options.frame_bytes / map.unit_bytes(), options.zstd_level};
  const std::vector<ElementRange> stretches =
      FrameGrid(map, job.frame_elements).Stretches(kStretchMaskBytes / map.unit_bytes());
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
      for (FrameRecord record : stretch.frames) {
        record.inner_offset += inner_offset;
        writer.AddFrame(record);
      }
      change += stretch.digest.change();
      inner_offset += stretch.inner_bytes;
      std::move(stretch.inner.begin(), stretch.inner.end(), std::back_inserter(pieces));
    }
    XORBIT_RETURN_IF_ERROR(writer.AddInner(std::move(pieces)));
  }
  return finish();
}

void MaskSegmentWriter::AddFrame(const FrameRecord& record) {
  AppendLe(segment_.records, record);
  ++segment_.record_count;
  segment_.change_count += record.change_count;
}

Status MaskSegmentWriter::AddInner(std::vector<Buffer> pieces) {
  if (has_outer_) return outer_.Add(std::move(pieces));
  std::move(pieces.begin(), pieces.end(), std::back_inserter(segment_.body));
  return {};
}

Status MaskSegmentWriter::AddInnerBytes(ConstBytes piece) {
  if (has_outer_) return outer_.AddBytes(piece);
  // Fresh memory costs more than the bytes that go there: every thread takes its share of both.
  constexpr uint64_t kCopyBytes = uint64_t{4} << 20;
  const uint64_t first = segment_.body.size();
  segment_.body.resize(first + DivideRoundUp(piece.size(), kCopyBytes));
  return ParallelFor(threads_, segment_.body.size() - first, [&](uint64_t index) -> Status {
    const uint64_t begin = index * kCopyBytes;
    const ConstBytes part = piece.subspan(begin, std::min<uint64_t>(kCopyBytes, piece.size() - begin));
    segment_.body[first + index].assign(part.begin(), part.end());
    return {};
  });
}

Result<EncodedSegment> MaskSegmentWriter::Finish(const StateDigest& change) {
  segment_.has_digests = true;
  segment_.change = change;
  if (has_outer_) {
    XORBIT_RETURN_IF_ERROR(outer_.Finish());
    segment_.outer = outer_.TakeRecords();
    segment_.body = outer_.TakeChunks();
  }
  segment_.cuts = CutsOf(segment_, has_outer_);
  return std::move(segment_);
}

}  // namespace xorbit
