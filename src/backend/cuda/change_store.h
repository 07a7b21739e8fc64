// Where warps leave changes as they find them: each reserves places without looking at the others.
#pragma once

#include "backend/cuda/change_record.h"
#include "backend/cuda/send_on_device.h"

namespace xorbit::cuda {

// A warp's end of the unordered store: many small requests are served from one piece, large ones each on its own.
template <typename Unit>
class ChangeStore {
 public:
  XORBIT_DEVICE explicit ChangeStore(const DiffCursor& cursor)
      : next_(cursor.next), left_(static_cast<uint32_t>(cursor.left)) {}
  // Where to go on later.
  XORBIT_DEVICE DiffCursor cursor() const { return {next_, left_}; }

  // Places for `count` changes, more than none. All lanes together.
  XORBIT_DEVICE uint64_t Reserve(const SendOnDevice& send, uint32_t count) {
    constexpr uint32_t kPieceChanges = 512;
    constexpr uint32_t kSmall = 64;
    if (count > kSmall) return Take(send, count);
    if (count > left_) {
      next_ = Take(send, kPieceChanges);
      left_ = kPieceChanges;
    }
    const uint64_t start = next_;
    next_ += count;
    left_ -= count;
    return start;
  }

 private:
  XORBIT_DEVICE static uint64_t Take(const SendOnDevice& send, uint32_t count) {
    uint64_t start = 0;
    if (Lane() == 0) start = FetchAdd(&send.counters->stored_count, count);
    return ShuffleFrom(start, 0);
  }

  uint64_t next_;
  uint32_t left_;
};

}  // namespace xorbit::cuda
