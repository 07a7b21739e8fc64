// A frame's mask as a warp writes it: only the groups in which something is not zero, each of them whole, and a mark for each.
//
// Nearly all of a mask is zero runs. Nobody has to write them, nor to read them, nor to leave a slot zero for the next batch.
#pragma once

#include "backend/cuda/mask/frame_on_device.h"
#include "backend/cuda/mask/input_window.h"

namespace xorbit::cuda {

// A byte that has been decoded. After a SyncWarp.
XORBIT_DEVICE uint32_t DecodedByte(const uint8_t* mask, const uint32_t* groups, uint32_t at) {
  const uint32_t group = at / kGroupBytes;
  return (LoadLive(groups + group / 32) >> group % 32 & 1) == 0 ? 0 : mask[at];
}

// Fills [at, at + byte_count) of a mask, whose groups are open, from `distance` back, where that is not 1; returns the last
// byte. Rare, and a call by values: the address of a FrameOutput would keep what the loop needs out of registers.
XORBIT_DEVICE_RARE uint32_t CopyInMask(uint8_t* mask, const uint32_t* groups, uint32_t at, uint32_t distance,
                                       uint32_t byte_count) {
  SyncWarp();  // what other lanes have put
  const uint32_t from = at - distance;
  for (uint32_t i = Lane(); i < byte_count; i += kWarpLanes) {
    const uint32_t byte = DecodedByte(mask, groups, from + (distance >= byte_count ? i : i % distance));
    if (byte != 0) mask[at + i] = static_cast<uint8_t>(byte);
  }
  const uint32_t last = DecodedByte(mask, groups, from + (byte_count - 1) % distance);
  SyncWarp();
  return last;
}

// All lanes of a warp use it together. Nothing is written outside the mask, whatever is asked for.
class FrameOutput {
 public:
  // `mask`: its groups are the warp's own, to their ends. `groups`: a word for each kGroupWordBytes, all of them zero.
  XORBIT_DEVICE FrameOutput(uint8_t* mask, uint32_t mask_bytes, uint32_t* groups)
      : mask_(mask), mask_bytes_(mask_bytes), groups_(groups) {}

  XORBIT_DEVICE uint32_t at() const { return at_; }
  XORBIT_DEVICE uint32_t mask_bytes() const { return mask_bytes_; }
  XORBIT_DEVICE bool is_full() const { return at_ == mask_bytes_; }

  // Bytes [at, at + byte_count) of the input, at least one, which it has.
  XORBIT_DEVICE FrameError TakeLiteral(const InputWindow& input, uint32_t at, uint32_t byte_count) {
    if (byte_count > mask_bytes_ - at_) return FrameError::kOverrun;
    Open(byte_count);
    if (byte_count <= kWarpLanes) {  // nearly always
      if (Lane() < byte_count) Put(at_ + Lane(), input.At(at + Lane()));
      last_ = input.At(at + byte_count - 1);
    } else {
      for (uint32_t i = Lane(); i < byte_count; i += kWarpLanes) Put(at_ + i, input.Far(at + i));
      last_ = input.Far(at + byte_count - 1);
    }
    at_ += byte_count;
    return FrameError::kNone;
  }

  // Both at once, as most of a mask is: lanes' bytes, of which this lane's is the literal's byte `index` if there is one, the
  // last of them zero; and so many zeros more. False, and nothing is taken, if the mask has no room.
  XORBIT_DEVICE bool TakeZeroRun(uint32_t byte, uint32_t index, uint32_t literal_bytes, uint32_t zero_bytes) {
    if (literal_bytes + zero_bytes > mask_bytes_ - at_) return false;
    Open(literal_bytes);
    if (index < literal_bytes) Put(at_ + index, byte);
    at_ += literal_bytes + zero_bytes;
    last_ = 0;
    return true;
  }

  // The parts of the same for who takes several at once and has seen that the mask has room for them. First, all lanes
  // together: opens the groups of `byte_count` bytes at `at`, at least one and no more than a group's, of each lane that has
  // some; they ascend, and `lanes` are those that have. Then any lane's bytes, and where all of them end.
  XORBIT_DEVICE void OpenEach(uint32_t lanes, uint32_t at, uint32_t byte_count) {
    const uint32_t last = (at + byte_count - 1) / kGroupBytes;
    const uint32_t below = lanes & LanesBelow();
    const uint32_t last_below = ShuffleFrom(last, below == 0 ? 0 : HighestBit(below));
    const uint32_t open = below == 0 || last_below < open_ ? open_ : last_below + 1;
    if ((lanes >> Lane() & 1) != 0) {
      if (at / kGroupBytes >= open) OpenGroup(at / kGroupBytes);
      if (last != at / kGroupBytes) OpenGroup(last);  // which nobody else can have begun
    }
    const uint32_t top = ShuffleFrom(last, HighestBit(lanes));
    if (top >= open_) open_ = top + 1;
    SyncWarp();
  }
  XORBIT_DEVICE void Put(uint32_t at, uint32_t byte) {
    if (byte != 0) mask_[at] = static_cast<uint8_t>(byte);
  }
  XORBIT_DEVICE void EndInZeros(uint32_t at) {
    at_ = at;
    last_ = 0;
  }
  XORBIT_DEVICE static uint32_t HighestBit(uint32_t bits) { return 31 - static_cast<uint32_t>(std::countl_zero(bits)); }

  // The byte before, so many times.
  XORBIT_DEVICE FrameError RepeatLast(uint32_t byte_count) {
    if (at_ == 0) return FrameError::kDistance;
    if (byte_count > mask_bytes_ - at_) return FrameError::kOverrun;
    if (last_ != 0) {
      Open(byte_count);
      for (uint32_t i = Lane(); i < byte_count; i += kWarpLanes) Put(at_ + i, last_);
    }
    at_ += byte_count;
    return FrameError::kNone;
  }

  // So many bytes, at least one, from `distance` back; beyond that they repeat themselves.
  XORBIT_DEVICE FrameError Copy(uint32_t distance, uint32_t byte_count) {
    if (distance == 1) return RepeatLast(byte_count);
    if (distance == 0 || distance > at_) return FrameError::kDistance;
    if (byte_count > mask_bytes_ - at_) return FrameError::kOverrun;
    Open(byte_count);
    last_ = CopyInMask(mask_, groups_, at_, distance, byte_count);
    at_ += byte_count;
    return FrameError::kNone;
  }

 private:
  // The groups of the next `byte_count` bytes, at least one: those that are not open yet.
  XORBIT_DEVICE void Open(uint32_t byte_count) {
    const uint32_t last = (at_ + byte_count - 1) / kGroupBytes;
    const uint32_t first = at_ / kGroupBytes < open_ ? open_ : at_ / kGroupBytes;
    if (first > last) return;
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (uint32_t group = first + Lane(); group <= last; group += kWarpLanes) OpenGroup(group);
    open_ = last + 1;
    SyncWarp();
  }
  // One lane: zeroes it and marks it. Nobody waits for the mark; to gather marks here would cost more steps.
  XORBIT_DEVICE void OpenGroup(uint32_t group) {
    auto* const vectors = reinterpret_cast<WordVector*>(mask_ + group * kGroupBytes);
    for (uint32_t i = 0; i < kGroupBytes / kVectorBytes; ++i) vectors[i] = {};
    AtomicOr(groups_ + group / 32, 1U << group % 32);
  }

  uint8_t* mask_;
  uint32_t mask_bytes_;
  uint32_t* groups_;
  uint32_t at_ = 0;
  uint32_t last_ = 0;  // the byte before it
  uint32_t open_ = 0;  // groups before this one are open, or zero
};

}  // namespace xorbit::cuda
