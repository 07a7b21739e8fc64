// One raw Snappy block by one warp: any standard stream, and streams of zero runs fast.
//
// A warp waits for each step of what it decodes, so steps must be few. Lanes look at 32 tokens at once for copies from one byte
// back (`fe 01 00` and the like), which is what runs are made of, together with the short literal before them. Everything else
// goes token by token.
#pragma once

#include "backend/cuda/mask/frame_output.h"

namespace xorbit::cuda {

class SnappyDecoder {
 public:
  XORBIT_DEVICE SnappyDecoder(InputWindow* input, FrameOutput* output) : input_(input), output_(output) {}

  XORBIT_DEVICE FrameError Decode() {
    input_->Reach(0);
    if (!IsLengthRight()) return FrameError::kLength;
    while (at_ < input_->byte_count()) {
      input_->Reach(at_);
      if (TakeZeroRun()) continue;
      const uint32_t tag = input_->At(at_);
      FrameError error = FrameError::kNone;
      if (tag % 4 == 0) {
        error = TakeLiteral(tag);
        input_->Reach(at_);
      } else if (RunsAhead() == 0) {
        error = TakeCopy(tag);
      }
      if (error == FrameError::kNone) error = TakeRuns();
      if (error != FrameError::kNone) return error;
    }
    return output_->is_full() ? FrameError::kNone : FrameError::kLength;
  }

 private:
  static constexpr uint32_t kCopyBytes = 3;  // of a token with a 16-bit distance
  static constexpr uint32_t kLongestCopy = 64;
  static_assert(1 + kWarpLanes + kWarpLanes * kCopyBytes <= InputWindow::kAheadBytes);

  XORBIT_DEVICE uint32_t left() const { return input_->byte_count() - at_; }

  // The block begins with the mask's length.
  XORBIT_DEVICE bool IsLengthRight() {
    uint64_t length = 0;
    for (uint32_t shift = 0; shift < 35 && left() > 0; shift += 7) {
      const uint32_t byte = input_->At(at_++);
      length |= uint64_t{byte % 128} << shift;
      if (byte < 128) return length == output_->mask_bytes();
    }
    return false;
  }

  // Little-endian, of `byte_count` bytes from one after the tag on.
  XORBIT_DEVICE uint32_t NumberAfterTag(uint32_t byte_count) const {
    uint32_t number = 0;
    for (uint32_t i = 0; i < byte_count; ++i) number |= input_->At(at_ + 1 + i) << (8 * i);
    return number;
  }

  XORBIT_DEVICE FrameError TakeLiteral(uint32_t tag) {
    uint32_t last = tag / 4;  // length - 1
    uint32_t head_bytes = 1;
    if (last >= 60) {
      head_bytes = last - 58;
      if (head_bytes > left()) return FrameError::kTruncated;
      last = NumberAfterTag(head_bytes - 1);
    }
    if (last >= left() - head_bytes) return FrameError::kTruncated;
    const FrameError error = output_->TakeLiteral(*input_, at_ + head_bytes, last + 1);
    at_ += head_bytes + last + 1;
    return error;
  }

  XORBIT_DEVICE FrameError TakeCopy(uint32_t tag) {
    const uint32_t kind = tag % 4;
    const uint32_t head_bytes = kind == 3 ? 5 : kind + 1;
    if (head_bytes > left()) return FrameError::kTruncated;
    const uint32_t low_distance = NumberAfterTag(head_bytes - 1);
    const uint32_t distance = kind == 1 ? tag / 32 << 8 | low_distance : low_distance;
    const uint32_t length = kind == 1 ? tag / 4 % 8 + 4 : tag / 4 + 1;
    at_ += head_bytes;
    return output_->Copy(distance, length);
  }

  // Whether this lane's of the next 32 tokens, were all of them copies of 3 bytes, repeats the byte before it.
  XORBIT_DEVICE bool IsRun(uint32_t at, uint32_t* length) const {
    const uint32_t mine = at + Lane() * kCopyBytes;
    if (mine + kCopyBytes > input_->byte_count()) return false;
    const uint32_t tag = input_->At(mine);
    *length = tag / 4 + 1;
    return tag % 4 == 2 && input_->At(mine + 1) == 1 && input_->At(mine + 2) == 0;
  }
  XORBIT_DEVICE uint32_t RunsAhead() const {
    uint32_t length = 0;
    return Ballot(IsRun(at_, &length)) & 1;
  }

  // Full copies from `at` on, as many as follow, and one of another length; the same in all lanes.
  struct Runs {
    uint32_t token_count;
    uint32_t byte_count;  // that they write
  };
  XORBIT_DEVICE Runs RunsAt(uint32_t at) const {
    uint32_t length = 0;
    const bool is_run = IsRun(at, &length);
    const uint32_t runs = Ballot(is_run);
    const uint32_t others = ~Ballot(is_run && length == kLongestCopy);
    const uint32_t full_count = others == 0 ? kWarpLanes : CountTrailingZeros(others);
    const bool has_rest = full_count < kWarpLanes && (runs >> full_count & 1) != 0;
    const uint32_t rest = ShuffleFrom(length, full_count % kWarpLanes);
    return {full_count + (has_rest ? 1 : 0), full_count * kLongestCopy + (has_rest ? rest : 0)};
  }

  XORBIT_DEVICE FrameError TakeRuns() {
    const Runs runs = RunsAt(at_);
    if (runs.token_count == 0) return FrameError::kNone;
    at_ += runs.token_count * kCopyBytes;
    return output_->RepeatLast(runs.byte_count);
  }

  // A short literal, its last byte zero, and the runs behind it. False, and nothing is taken, if these are not there.
  XORBIT_DEVICE bool TakeZeroRun() {
    const uint32_t tag = input_->At(at_);
    const uint32_t byte = input_->At(at_ + 1 + Lane());
    const uint32_t length = tag / 4 + 1;
    if (tag % 4 != 0 || length > kWarpLanes || length >= left()) return false;
    const Runs runs = RunsAt(at_ + 1 + length);
    if (ShuffleFrom(byte, length - 1) != 0 || runs.token_count == 0) return false;
    if (!output_->TakeZeroRun(byte, Lane(), length, runs.byte_count)) return false;
    at_ += 1 + length + runs.token_count * kCopyBytes;
    return true;
  }

  InputWindow* input_;
  FrameOutput* output_;
  uint32_t at_ = 0;
};

}  // namespace xorbit::cuda
