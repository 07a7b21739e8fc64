// A frame's mask as a warp writes it: into memory that is zero already, so that zeros cost nothing.
//
// Nearly all of a mask is zero runs. Whoever consumes a mask leaves zeros behind where it found a change, which costs a sector
// for each; writing the zeros with every decoding would cost all of the mask. For the same reason it leaves marks of the groups
// that it wrote to, so that nobody has to read the others.
#pragma once

#include "backend/cuda/mask/frame_on_device.h"
#include "backend/cuda/mask/input_window.h"

namespace xorbit::cuda {

// Fills [at, at + byte_count) of a mask from `distance` back, where that is not 1; returns the last byte. Rare, and a call by
// values: the address of a FrameOutput would keep what the loop needs out of registers.
XORBIT_DEVICE_RARE uint32_t CopyInMask(uint8_t* mask, uint32_t at, uint32_t distance, uint32_t byte_count) {
  SyncWarp();  // what other lanes have put
  const uint8_t* from = mask + (at - distance);
  for (uint32_t i = Lane(); i < byte_count; i += kWarpLanes) {
    const uint8_t byte = from[distance >= byte_count ? i : i % distance];
    if (byte != 0) mask[at + i] = byte;
  }
  const uint32_t last = from[(byte_count - 1) % distance];
  SyncWarp();
  return last;
}

// All lanes of a warp use it together. Nothing is written outside the mask, whatever is asked for.
class FrameOutput {
 public:
  // `groups`: a word for each kGroupWordBytes of the mask, all of which Finish() leaves written.
  XORBIT_DEVICE FrameOutput(uint8_t* mask, uint32_t mask_bytes, uint32_t* groups)
      : mask_(mask), mask_bytes_(mask_bytes), groups_(groups) {}

  // Once, last: the marks that are not yet in memory.
  XORBIT_DEVICE void Finish() {
    if (mask_bytes_ > 0) GoToWord((mask_bytes_ - 1) / kGroupWordBytes);
    if (Lane() == 0) groups_[word_] = marks_;
  }

  XORBIT_DEVICE uint32_t mask_bytes() const { return mask_bytes_; }
  XORBIT_DEVICE bool is_full() const { return at_ == mask_bytes_; }

  // Bytes [at, at + byte_count) of the input, at least one, which it has.
  XORBIT_DEVICE FrameError TakeLiteral(const InputWindow& input, uint32_t at, uint32_t byte_count) {
    if (byte_count > mask_bytes_ - at_) return FrameError::kOverrun;
    Mark(byte_count);
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
    Mark(literal_bytes);
    if (index < literal_bytes) Put(at_ + index, byte);
    at_ += literal_bytes + zero_bytes;
    last_ = 0;
    return true;
  }

  // The byte before, so many times.
  XORBIT_DEVICE FrameError RepeatLast(uint32_t byte_count) {
    if (at_ == 0) return FrameError::kDistance;
    if (byte_count > mask_bytes_ - at_) return FrameError::kOverrun;
    if (last_ != 0) {
      Mark(byte_count);
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
    Mark(byte_count);
    last_ = CopyInMask(mask_, at_, distance, byte_count);
    at_ += byte_count;
    return FrameError::kNone;
  }

 private:
  // The groups of the next `byte_count` bytes, at least one. Words ascend, so one is kept until the next begins.
  XORBIT_DEVICE void Mark(uint32_t byte_count) {
    const uint32_t first = at_ / kGroupBytes;
    MarkGroup(first);
    const uint32_t last = (at_ + byte_count - 1) / kGroupBytes;
    for (uint32_t group = first + 1; group <= last; ++group) MarkGroup(group);  // none, mostly
  }
  XORBIT_DEVICE void MarkGroup(uint32_t group) {
    if (group / 32 != word_) GoToWord(group / 32);
    marks_ |= 1U << group % 32;
  }
  XORBIT_DEVICE void GoToWord(uint32_t word) {
    for (; word_ < word; ++word_) {
      if (Lane() == 0) groups_[word_] = marks_;
      marks_ = 0;
    }
  }

  XORBIT_DEVICE void Put(uint32_t at, uint32_t byte) {
    if (byte != 0) mask_[at] = static_cast<uint8_t>(byte);
  }

  uint8_t* mask_;
  uint32_t mask_bytes_;
  uint32_t* groups_;
  uint32_t word_ = 0;   // of groups_
  uint32_t marks_ = 0;  // what will be in it
  uint32_t at_ = 0;
  uint32_t last_ = 0;  // the byte before it
};

}  // namespace xorbit::cuda
