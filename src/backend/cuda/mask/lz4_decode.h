// One LZ4 block by one warp: any standard block, and zero runs fast.
//
// A warp waits for each step of what it decodes, so steps must be few. Lanes look at the next 32 bytes at once, in which nearly
// always the whole of a sequence is: token, a literal or two, distance and length. Everything else goes piece by piece.
#pragma once

#include "backend/cuda/mask/frame_output.h"

namespace xorbit::cuda {

class Lz4Decoder {
 public:
  XORBIT_DEVICE Lz4Decoder(InputWindow* input, FrameOutput* output) : input_(input), output_(output) {}

  XORBIT_DEVICE FrameError Decode() {
    for (;;) {
      if (left() == 0) return FrameError::kTruncated;
      input_->Reach(at_);
      if (TakeZeroRun()) continue;
      const uint32_t token = input_->At(at_++);
      FrameError error = TakeLiterals(token / 16);
      if (error != FrameError::kNone) return error;
      if (left() == 0) return output_->is_full() ? FrameError::kNone : FrameError::kLength;
      error = TakeMatch(token % 16);
      if (error != FrameError::kNone) return error;
    }
  }

 private:
  static constexpr uint32_t kNibbleMax = 15;
  static constexpr uint32_t kMinMatchBytes = 4;

  XORBIT_DEVICE uint32_t left() const { return input_->byte_count() - at_; }

  // A sequence of few literals, the last of them zero, and a long match from one byte back. False, and nothing is taken, if
  // this is none.
  XORBIT_DEVICE bool TakeZeroRun() {
    if (left() < kWarpLanes) return false;
    const uint32_t byte = input_->At(at_ + Lane());
    const uint32_t token = input_->At(at_);
    const uint32_t literals = token / 16;
    const uint32_t tail = literals + 3;  // where the match's length goes on, behind token, literals and distance
    const uint32_t full_count = CountTrailingZeros(~(Ballot(byte == 255) >> tail));
    const uint32_t last = ShuffleFrom(byte, literals);
    const uint32_t low = ShuffleFrom(byte, literals + 1);
    const uint32_t high = ShuffleFrom(byte, literals + 2);
    const uint32_t rest = ShuffleFrom(byte, (tail + full_count) % kWarpLanes);
    const bool is_run = literals - 1 < kNibbleMax - 1 && token % 16 == kNibbleMax && last == 0 && low == 1 && high == 0;
    if (!is_run || tail + full_count >= kWarpLanes) return false;
    const uint32_t zeros = kNibbleMax + kMinMatchBytes + 255 * full_count + rest;
    if (!output_->TakeZeroRun(byte, Lane() - 1, literals, zeros)) return false;
    at_ += tail + full_count + 1;
    return true;
  }

  XORBIT_DEVICE FrameError TakeLiterals(uint32_t nibble) {
    uint32_t length = nibble;
    if (nibble == kNibbleMax && !AddLengthTail(&length)) return FrameError::kTruncated;
    if (length == 0) return FrameError::kNone;
    if (length > left()) return FrameError::kTruncated;
    const FrameError error = output_->TakeLiteral(*input_, at_, length);
    at_ += length;
    return error;
  }

  XORBIT_DEVICE FrameError TakeMatch(uint32_t nibble) {
    if (left() < 2) return FrameError::kTruncated;
    input_->Reach(at_);
    const uint32_t distance = input_->At(at_) | input_->At(at_ + 1) << 8;
    at_ += 2;
    uint32_t length = nibble;
    if (nibble == kNibbleMax && !AddLengthTail(&length)) return FrameError::kTruncated;
    return output_->Copy(distance, length + kMinMatchBytes);
  }

  // Bytes of 255 and one that is less. Cannot overflow: a frame has at most a few million bytes.
  XORBIT_DEVICE bool AddLengthTail(uint32_t* length) {
    for (;;) {
      input_->Reach(at_);
      const uint32_t mine = at_ + Lane();
      const uint32_t others = ~Ballot(mine < input_->byte_count() && input_->At(mine) == 255);
      const uint32_t full_count = others == 0 ? kWarpLanes : CountTrailingZeros(others);
      *length += 255 * full_count;
      at_ += full_count;
      if (full_count == kWarpLanes) continue;
      if (left() == 0) return false;
      *length += input_->At(at_++);
      return true;
    }
  }

  InputWindow* input_;
  FrameOutput* output_;
  uint32_t at_ = 0;
};

}  // namespace xorbit::cuda
