// What a warp does with one frame of the mask codecs: finds its changes among all ordered ones, weighs them, measures its inner
// stream, and later writes it.
#pragma once

#include "backend/cuda/frame_walk.h"
#include "backend/cuda/survey_tile.h"

namespace xorbit::cuda {

enum class FrameForm : uint32_t { kSnappy, kLz4 };

// One frame, as the host plans it.
struct SendFrame {
  uint64_t first;         // segment element
  uint64_t inner_offset;  // for writing
  uint32_t element_count;
  uint32_t unused;
};
static_assert(sizeof(SendFrame) == 24);

// What is in it.
struct FrameSurvey {
  uint64_t first_change;  // of the segment
  uint64_t before;        // lane 0 over the changed elements
  uint64_t after;
  uint64_t lane1_change;
  uint32_t change_count;
  uint32_t inner_bytes;
};
static_assert(sizeof(FrameSurvey) == 40);

struct FramesOnDevice {
  FrameForm form;
  const SendFrame* frames;
  uint64_t frame_count;
  FrameSurvey* surveys;
  uint8_t* inner;  // all inner frames, end to end
};

// The number of changes before segment element `element`. All lanes together, with the same element.
template <typename Unit>
XORBIT_DEVICE uint64_t ChangesBefore(const SendOnDevice& send, uint64_t element) {
  if (element >= send.element_count) return send.counters->change_count;
  // The last group that starts at or before the element, then the changes of that group, 32 probes at a time.
  uint64_t low = 0;
  for (uint64_t high = send.group_count; high - low > 1;) {
    const uint64_t step = (high - low + kWarpLanes - 1) / kWarpLanes;
    const uint64_t probe = low + Lane() * step;
    const uint32_t votes = Ballot(probe < high && send.strips[probe * kStripsPerGroup].first_element <= element);
    low += (CountBits(votes) - 1) * step;
    high = low + step < high ? low + step : high;
  }
  const uint64_t group_first = send.strips[low * kStripsPerGroup].first_element;
  const auto distance = static_cast<uint32_t>(element - group_first);  // a group is far shorter than 2^32 elements
  uint64_t begin = send.group_starts[low];
  // Changes before `begin` lie before the element, those from `end` on do not.
  for (uint64_t end = send.group_starts[low + 1]; begin < end;) {
    const uint64_t step = (end - begin + kWarpLanes - 1) / kWarpLanes;
    const uint64_t probe = begin + Lane() * step;
    const bool before =
        probe < end && LoadChange<Unit>(send.changes, probe).position() - static_cast<uint32_t>(group_first) < distance;
    const uint32_t count = CountBits(Ballot(before));
    if (count == 0) break;
    const uint64_t next = begin + count * step;
    begin += (count - 1) * step + 1;
    end = next < end ? next : end;
  }
  return begin;
}

template <typename Unit>
XORBIT_DEVICE FrameChanges<Unit> ChangesOfFrame(const SendOnDevice& send, const SendFrame& frame, const FrameSurvey& survey) {
  return {reinterpret_cast<const StoredChange<Unit>*>(send.changes) + survey.first_change, survey.change_count,
          static_cast<uint32_t>(frame.first), static_cast<int32_t>(frame.element_count * sizeof(Unit))};
}

template <typename Unit, bool kWrites>
XORBIT_DEVICE uint32_t WalkFrameIn(FrameForm form, const FrameChanges<Unit>& changes, uint8_t* target) {
  if (form == FrameForm::kSnappy) return WalkFrame<Unit, SnappyForm, kWrites>(changes, target);
  return WalkFrame<Unit, Lz4Form, kWrites>(changes, target);
}

template <typename Unit>
XORBIT_DEVICE void SurveyFrame(const SendOnDevice& send, const FramesOnDevice& frames, uint64_t index,
                               const uint64_t* word_factors) {
  const SendFrame frame = frames.frames[index];
  FrameSurvey survey{};
  survey.first_change = ChangesBefore<Unit>(send, frame.first);
  survey.change_count =
      static_cast<uint32_t>(ChangesBefore<Unit>(send, frame.first + frame.element_count) - survey.first_change);
  const FrameChanges<Unit> changes = ChangesOfFrame<Unit>(send, frame, survey);
  SurveySums sums;
  TileSpans<Unit> spans(send, frame.first);
  for (uint32_t i = Lane(); i < changes.count; i += kWarpLanes) {
    const Change<Unit> change = changes.changes[i].change();
    const uint32_t distance = change.position - changes.first_element;
    spans.Seek(distance);
    WeighChange(change, spans.tensor_key(), spans.ByteOf(distance), word_factors, &sums);
  }
  survey.before = WarpSum(sums.before);
  survey.after = WarpSum(sums.after);
  survey.lane1_change = WarpSum(sums.lane1_change);
  if (survey.change_count > 0) survey.inner_bytes = WalkFrameIn<Unit, false>(frames.form, changes, nullptr);
  if (Lane() == 0) frames.surveys[index] = survey;
}

// After its survey, at its offset.
template <typename Unit>
XORBIT_DEVICE void WriteFrame(const SendOnDevice& send, const FramesOnDevice& frames, uint64_t index) {
  const SendFrame frame = frames.frames[index];
  const FrameSurvey survey = frames.surveys[index];
  if (survey.change_count == 0) return;
  WalkFrameIn<Unit, true>(frames.form, ChangesOfFrame<Unit>(send, frame, survey), frames.inner + frame.inner_offset);
}

}  // namespace xorbit::cuda
