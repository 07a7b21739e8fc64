// One LZ4 block by one warp: any standard block, and zero runs fast.
//
// A warp waits for each step of what it decodes, so steps must be few. Lanes look at the next 64 bytes at once, in which nearly
// always several whole sequences are: token, a literal or two, distance and length. Everything else goes piece by piece.
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
      if (TakeZeroRuns()) continue;
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

  // What nearly all of a mask is: a sequence of few literals, the last of them zero, and a long match from one byte back.
  struct ZeroRun {
    uint32_t literal_bytes;
    uint32_t mask_bytes;  // with the literals
    uint32_t end;         // where the next sequence begins, counted as the lanes are
    bool is_there;
  };
  // One that begins with the byte of this lane, of the 64 of which each lane has two.
  XORBIT_DEVICE ZeroRun FindZeroRun(uint32_t low, uint32_t high) const {
    const uint64_t zeros = BallotBoth(low == 0, high == 0);
    const uint64_t ones = BallotBoth(low == 1, high == 1);
    const uint64_t full = BallotBoth(low == 255, high == 255);
    const uint64_t zeros_from_one_back = zeros & ones >> 1 & zeros >> 2;  // by last literal
    ZeroRun run{};
    run.literal_bytes = low / 16;
    const uint32_t tail = Lane() + run.literal_bytes + 3;  // where the match's length goes on: behind literals and distance
    const uint32_t others = ~static_cast<uint32_t>(full >> tail);
    const uint32_t full_count = others == 0 ? kWarpLanes : CountTrailingZeros(others);
    const uint32_t last = tail + full_count;
    run.is_there = run.literal_bytes - 1 < kNibbleMax - 1 && low % 16 == kNibbleMax && others != 0 && last < 2 * kWarpLanes &&
                   last < left() && (zeros_from_one_back >> (tail - 3) & 1) != 0;
    run.mask_bytes = run.literal_bytes + kNibbleMax + kMinMatchBytes + 255 * full_count + input_->At(at_ + last);
    run.end = last + 1;
    return run;
  }
  XORBIT_DEVICE static uint64_t BallotBoth(bool low, bool high) { return uint64_t{Ballot(high)} << 32 | Ballot(low); }

  // As many of these as follow one another and begin within the next 32 bytes: each lane looks for one, and then the warp goes
  // from each to the next. False, and nothing is taken, if this is none.
  XORBIT_DEVICE bool TakeZeroRuns() {
    const uint32_t low = input_->At(at_ + Lane());
    const uint32_t high = input_->At(at_ + kWarpLanes + Lane());
    const ZeroRun run = FindZeroRun(low, high);
    const uint32_t there = Ballot(run.is_there);
    uint32_t taken = 0;
    uint32_t next = 0;
    uint32_t to = output_->at();
    uint32_t own_to = 0;
    while (next < kWarpLanes && (there >> next & 1) != 0) {
      const uint32_t mask_bytes = ShuffleFrom(run.mask_bytes, next);
      if (mask_bytes > output_->mask_bytes() - to) break;
      if (Lane() == next) own_to = to;
      taken |= 1U << next;
      to += mask_bytes;
      next = ShuffleFrom(run.end, next);
    }
    if (taken == 0) return false;
    output_->OpenEach(taken, own_to, run.literal_bytes);
    PutLiteral(taken & LanesBelow(), Lane(), low, own_to, run.literal_bytes);
    const uint32_t top = FrameOutput::HighestBit(taken);
    if (top + ShuffleFrom(run.literal_bytes, top) >= kWarpLanes) {
      PutLiteral(taken, kWarpLanes + Lane(), high, own_to, run.literal_bytes);
    }
    output_->EndInZeros(to);
    at_ += next;
    return true;
  }
  // The byte at `at` of those 64, if it is a literal of the last of these runs, which all begin before it.
  XORBIT_DEVICE void PutLiteral(uint32_t runs, uint32_t at, uint32_t byte, uint32_t own_to, uint32_t own_literal_bytes) {
    const uint32_t token = runs == 0 ? 0 : FrameOutput::HighestBit(runs);
    const uint32_t to = ShuffleFrom(own_to, token);
    const uint32_t index = at - token - 1;
    if (index < ShuffleFrom(own_literal_bytes, token) && runs != 0) output_->Put(to + index, byte);
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
