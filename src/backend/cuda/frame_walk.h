// How one warp goes over the non-zero bytes of a frame's mask and measures or writes the frame's inner stream.
//
// Lanes take bytes in turn, 32 places a step. What a byte adds to the stream depends on the byte before it, and, where it
// begins a cluster, on where that cluster ends: on the first byte of the next one, for which the warp looks ahead. Clusters
// that span steps are read twice, all others once.
#pragma once

#include "backend/cuda/change_record.h"
#include "backend/cuda/frame_form.h"

namespace xorbit::cuda {

// One lane's byte of a mask.
struct MaskByte {
  int32_t at;
  uint8_t value;
  bool exists;
};

// A frame's changes as places of bytes: sizeof(Unit) of them a change, of which some may be zero.
template <typename Unit>
struct FrameChanges {
  const StoredChange<Unit>* changes;
  uint32_t count;
  uint32_t first_element;  // of the frame, modulo 2^32
  int32_t mask_bytes;

  XORBIT_DEVICE uint32_t place_count() const { return count * static_cast<uint32_t>(sizeof(Unit)); }
  XORBIT_DEVICE MaskByte Load(uint32_t place) const {
    constexpr auto kUnitBytes = static_cast<uint32_t>(sizeof(Unit));
    if (place >= place_count()) return {0, 0, false};
    const Change<Unit> change = changes[place / kUnitBytes].change();
    const auto value = static_cast<uint8_t>(change.bits >> (8 * (place % kUnitBytes)));
    return {static_cast<int32_t>((change.position - first_element) * kUnitBytes + place % kUnitBytes), value, value != 0};
  }
};

// A step's bytes, each beside the one before it.
struct MaskStep {
  MaskByte byte;
  int32_t previous;  // of the byte before
  bool begins;       // a cluster of its own
  uint32_t begin_votes;
  int32_t last;  // of the step's bytes, or of those before
};

template <typename Unit, typename Form>
XORBIT_DEVICE MaskStep StepAt(const FrameChanges<Unit>& frame, uint32_t base, int32_t last) {
  MaskStep step{};
  step.byte = frame.Load(base + Lane());
  const uint32_t there = Ballot(step.byte.exists);
  const uint32_t below = there & LanesBelow();
  const auto at = static_cast<uint32_t>(step.byte.at);
  const uint32_t from_below = ShuffleFrom(at, below == 0 ? 0 : 31 - static_cast<uint32_t>(std::countl_zero(below)));
  const uint32_t top = ShuffleFrom(at, there == 0 ? 0 : 31 - static_cast<uint32_t>(std::countl_zero(there)));
  step.previous = below == 0 ? last : static_cast<int32_t>(from_below);
  step.last = there == 0 ? last : static_cast<int32_t>(top);
  step.begins = step.byte.exists && Form::Begins(step.previous, step.byte.at, frame.mask_bytes);
  step.begin_votes = Ballot(step.begins);
  return step;
}

// Where a cluster ends: its last byte, and the next cluster's first, or the mask's end.
struct ClusterEnd {
  int32_t last;
  int32_t next;
};

// Of the cluster that is open before place `base`, whose last byte so far is at `last`. All lanes together.
template <typename Unit, typename Form>
XORBIT_DEVICE ClusterEnd EndAfter(const FrameChanges<Unit>& frame, uint32_t base, int32_t last) {
  for (; base < frame.place_count(); base += kWarpLanes) {
    const MaskStep step = StepAt<Unit, Form>(frame, base, last);
    if (step.begin_votes != 0) {
      const uint32_t lane = CountTrailingZeros(step.begin_votes);
      return {static_cast<int32_t>(ShuffleFrom(static_cast<uint32_t>(step.previous), lane)),
              static_cast<int32_t>(ShuffleFrom(static_cast<uint32_t>(step.byte.at), lane))};
    }
    last = step.last;
  }
  return {last, frame.mask_bytes};
}

// Of each lane's cluster, if it begins one.
template <typename Unit, typename Form>
XORBIT_DEVICE ClusterEnd EndInStep(const FrameChanges<Unit>& frame, uint32_t base, const MaskStep& step) {
  const ClusterEnd open = EndAfter<Unit, Form>(frame, base + kWarpLanes, step.last);
  const uint32_t above = step.begin_votes & ~LanesBelow() & ~(uint32_t{1} << Lane());
  const uint32_t lane = above == 0 ? 0 : CountTrailingZeros(above);
  const uint32_t last = ShuffleFrom(static_cast<uint32_t>(step.previous), lane);
  const uint32_t next = ShuffleFrom(static_cast<uint32_t>(step.byte.at), lane);
  return above == 0 ? open : ClusterEnd{static_cast<int32_t>(last), static_cast<int32_t>(next)};
}

// Bytes that repeat themselves, which the lanes write together if they are many.
inline constexpr uint32_t kFewBytes = 96;

template <typename ByteAt>
XORBIT_DEVICE void WriteTogether(bool has, uint64_t at, uint32_t count, uint64_t shape, uint8_t* target, ByteAt&& byte_at) {
  const bool is_long = has && count > kFewBytes;
  if (has && !is_long) {
    for (uint32_t i = 0; i < count; ++i) target[at + i] = byte_at(shape, i);
  }
  for (uint32_t votes = Ballot(is_long); votes != 0; votes &= votes - 1) {
    const uint32_t lane = CountTrailingZeros(votes);
    const uint64_t lane_at = ShuffleFrom(at, lane);
    const uint64_t lane_shape = ShuffleFrom(shape, lane);
    const uint32_t lane_count = ShuffleFrom(count, lane);
    for (uint32_t i = Lane(); i < lane_count; i += kWarpLanes) target[lane_at + i] = byte_at(lane_shape, i);
  }
}

// A cluster as one number, as lanes hand it around: its literal's length and its run.
XORBIT_DEVICE uint64_t ShapeOf(const Cluster& cluster) {
  return uint64_t{cluster.run} << 32 | static_cast<uint32_t>(cluster.end - cluster.begin);
}
template <typename Form>
XORBIT_DEVICE uint8_t OpeningAt(uint64_t shape, uint32_t i) {
  return Form::OpeningByte({0, static_cast<int32_t>(shape), static_cast<uint32_t>(shape >> 32)}, i);
}
template <typename Form>
XORBIT_DEVICE uint8_t RunAt(uint64_t zeros, uint32_t i) {
  return Form::RunByte(static_cast<uint32_t>(zeros), i);
}

// What comes before the first byte: the stream's head, and the opening of the cluster that begins with the mask.
template <typename Unit, typename Form, bool kWrites>
XORBIT_DEVICE uint32_t WalkHead(const FrameChanges<Unit>& frame, uint8_t* target) {
  const ClusterEnd end = EndAfter<Unit, Form>(frame, 0, -1);
  const Cluster first = Form::ClusterOf(0, end.last, end.next, frame.mask_bytes);
  const auto mask_bytes = static_cast<uint32_t>(frame.mask_bytes);
  const uint32_t head_bytes = Form::HeadBytes(mask_bytes);
  const uint32_t opening_bytes = Form::OpeningBytes(first);
  if (kWrites) {
    if (Lane() < head_bytes) target[Lane()] = Form::HeadByte(mask_bytes, Lane());
    WriteTogether(Lane() == 0, head_bytes, opening_bytes, ShapeOf(first), target, &OpeningAt<Form>);
  }
  return head_bytes + opening_bytes;
}

// What comes after the last byte: the rest of its literal, or a run to the mask's end.
template <typename Form, bool kWrites>
XORBIT_DEVICE uint32_t WalkFoot(int32_t last, int32_t mask_bytes, uint32_t written, uint8_t* target) {
  const Cluster rest = Form::ClusterOf(0, last, mask_bytes, mask_bytes);
  if (rest.run == 0) {
    const auto zero_count = static_cast<uint32_t>(mask_bytes - last - 1);
    if (kWrites) {
      for (uint32_t i = Lane(); i < zero_count; i += kWarpLanes) target[written + i] = 0;
    }
    return zero_count;
  }
  const uint32_t run_bytes = Form::RunBytes(rest.run);
  if (kWrites) {
    if (Lane() == 0) target[written] = 0;
    WriteTogether(Lane() == 0, uint64_t{written} + 1, run_bytes, rest.run, target, &RunAt<Form>);
    if (Lane() < Form::FootBytes()) target[written + 1 + run_bytes + Lane()] = Form::FootByte(Lane());
  }
  return 1 + run_bytes + Form::FootBytes();
}

// Measures the stream, and writes it to `target` if it is to. Returns its length. All lanes together.
template <typename Unit, typename Form, bool kWrites>
XORBIT_DEVICE uint32_t WalkFrame(const FrameChanges<Unit>& frame, uint8_t* target) {
  const int32_t mask_bytes = frame.mask_bytes;
  uint32_t written = WalkHead<Unit, Form, kWrites>(frame, target);
  int32_t last = -1;
  for (uint32_t base = 0; base < frame.place_count(); base += kWarpLanes) {
    const MaskStep step = StepAt<Unit, Form>(frame, base, last);
    const int32_t at = step.byte.at;
    uint32_t size = step.byte.exists ? static_cast<uint32_t>(at - step.previous) : 0;
    uint32_t run = 0;
    uint32_t zero_count = size == 0 ? 0 : size - 1;  // before the byte, in its literal
    Cluster cluster{};
    if (step.begin_votes != 0) {
      const ClusterEnd end = EndInStep<Unit, Form>(frame, base, step);
      if (step.begins) {
        const int32_t begin = Form::BeginOf(at, mask_bytes);
        cluster = Form::ClusterOf(begin, end.last, end.next, mask_bytes);
        run = static_cast<uint32_t>(begin - (step.previous + 2));
        zero_count = static_cast<uint32_t>(at - begin);
        size = 1 + Form::RunBytes(run) + Form::OpeningBytes(cluster) + zero_count + 1;
      }
    }
    const uint32_t sum = InclusiveSum(size);
    if (kWrites) {
      uint64_t to = uint64_t{written} + sum - size;
      if (step.begins) target[to++] = 0;
      if (step.begin_votes != 0) {
        const uint32_t run_bytes = step.begins ? Form::RunBytes(run) : 0;
        WriteTogether(step.begins, to, run_bytes, run, target, &RunAt<Form>);
        to += run_bytes;
        const uint32_t opening_bytes = step.begins ? Form::OpeningBytes(cluster) : 0;
        WriteTogether(step.begins, to, opening_bytes, ShapeOf(cluster), target, &OpeningAt<Form>);
        to += opening_bytes;
      }
      for (uint32_t i = 0; i < zero_count; ++i) target[to + i] = 0;
      if (step.byte.exists) target[to + zero_count] = step.byte.value;
    }
    written += ShuffleFrom(sum, kWarpLanes - 1);
    last = step.last;
  }
  return written + WalkFoot<Form, kWrites>(last, mask_bytes, written, target);
}

}  // namespace xorbit::cuda
