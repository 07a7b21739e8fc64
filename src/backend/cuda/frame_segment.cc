#include "backend/cuda/frame_segment.h"

#include <algorithm>
#include <string>

#include "base/parallel.h"
#include "base/xxh3.h"
#include "codec/mask_codec.h"
#include "codec/mask_frames.h"

namespace xorbit::cuda {
namespace {

bool MustBeHalved(const FrameSurvey& survey) { return survey.before == survey.after && survey.change_count > 1; }

FrameRecord RecordOf(const SendFrame& frame, const FrameSurvey& survey, ConstBytes inner) {
  FrameRecord record{};
  record.first = frame.first;
  record.inner_offset = frame.inner_offset;
  record.before = survey.before;
  record.after = survey.after;
  record.inner_hash = Xxh3Hash64Of(inner.subspan(frame.inner_offset, survey.inner_bytes));
  record.element_count = frame.element_count;
  record.inner_bytes = survey.inner_bytes;
  record.change_count = survey.change_count;
  return record;
}

}  // namespace

std::optional<FrameForm> FrameFormOf(CodecId codec) {
  if (codec == CodecId::kSnappy || codec == CodecId::kSnappyZstd) return FrameForm::kSnappy;
  if (codec == CodecId::kLz4 || codec == CodecId::kLz4Zstd) return FrameForm::kLz4;
  return std::nullopt;
}

std::vector<SendFrame> PlanSendFrames(const SegmentMap& map, uint64_t frame_bytes) {
  const FrameGrid grid(map, frame_bytes / map.unit_bytes());
  std::vector<SendFrame> frames;
  for (uint64_t at = 0; at < map.element_count();) {
    const ElementRange range = grid.FrameOf(at);
    frames.push_back({range.first, 0, static_cast<uint32_t>(range.element_count()), 0});
    at = range.end;
  }
  return frames;
}

Result<SentFrames> EncodeFrames(std::vector<SendFrame> frames, FrameStages* stages) {
  for (;;) {
    XORBIT_ASSIGN_OR_RETURN(const std::vector<FrameSurvey> surveys, stages->Survey(frames));
    SentFrames sent;
    std::vector<SendFrame> next;  // if some have to be halved
    bool again = false;
    for (size_t i = 0; i < frames.size(); ++i) {
      const SendFrame& frame = frames[i];
      if (surveys[i].change_count == 0) continue;
      if (MustBeHalved(surveys[i])) {
        const uint32_t half = frame.element_count / 2;
        next.push_back({frame.first, 0, half, 0});
        next.push_back({frame.first + half, 0, frame.element_count - half, 0});
        again = true;
        continue;
      }
      next.push_back(frame);
      sent.frames.push_back({frame.first, sent.inner_bytes, frame.element_count, 0});
      sent.surveys.push_back(surveys[i]);
      sent.inner_bytes += surveys[i].inner_bytes;
    }
    if (!again) {
      // The stages know the frames by their place in the last survey.
      for (size_t i = 0, s = 0; i < frames.size(); ++i) {
        if (surveys[i].change_count > 0) frames[i].inner_offset = sent.frames[s++].inner_offset;
      }
      XORBIT_RETURN_IF_ERROR(stages->Write(frames, sent.inner_bytes));
      return sent;
    }
    frames = std::move(next);
  }
}

Result<EncodedSegment> ToEncodedSegment(const SentFrames& sent, CodecId codec, ConstBytes inner, const EncodeOptions& options) {
  std::vector<FrameRecord> records(sent.frames.size());
  XORBIT_RETURN_IF_ERROR(ParallelFor(options.threads, records.size(), [&](uint64_t i) -> Status {
    records[i] = RecordOf(sent.frames[i], sent.surveys[i], inner);
    return {};
  }));
  StateDigest change;
  for (const FrameSurvey& survey : sent.surveys) change += {survey.after - survey.before, survey.lane1_change};
  return SealFrames(codec, records, change, inner, options);
}

}  // namespace xorbit::cuda
