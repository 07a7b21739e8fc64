// A tile's raw gap bits, appended from the last change to the first: the encoder goes over a tile once, backwards, as rANS
// must.
//
// The stream begins with the first change and fills 32-bit words from their low bits on. How many bits there are is known only
// at the end, so they are laid out against the end, and whoever copies them shifts by what the first word then lacks.
#pragma once

#include "backend/cuda/warp.h"

namespace xorbit::cuda {

class BackwardBits {
 public:
  // Words are written in front of `words_end`. `buffer`: 32 words of fast memory, the warp's own: a group of 32 changes takes
  // at most 31 + 32 * 29 bits.
  XORBIT_DEVICE BackwardBits(uint32_t* words_end, uint32_t* buffer) : words_end_(words_end), buffer_(buffer) {
    buffer_[Lane()] = 0;
  }

  // Puts each lane's bits, lanes ascending, before those that are there. All lanes together; at most 29 bits each.
  XORBIT_DEVICE void Put(uint32_t bits, uint32_t bit_count) {
    const uint32_t sum = InclusiveSum(bit_count);
    const uint32_t total = waiting_count_ + ShuffleFrom(sum, kWarpLanes - 1);
    const uint32_t after = total - sum;  // bits behind this lane's, from the last whole word on
    SyncWarp();
    if (bit_count > 0) {
      const uint32_t word = after / 32;
      const uint32_t room = 32 - after % 32;
      if (bit_count <= room) {
        AtomicOr(&buffer_[word], bits << (room - bit_count));
      } else {
        AtomicOr(&buffer_[word], bits >> (bit_count - room));
        AtomicOr(&buffer_[word + 1], bits << (32 - (bit_count - room)));
      }
    }
    SyncWarp();
    const uint32_t whole = total / 32;
    const uint32_t own = buffer_[Lane()];
    if (Lane() < whole) *(words_end_ - 1 - word_count_ - Lane()) = own;
    const uint32_t rest = ShuffleFrom(own, whole);
    buffer_[Lane()] = Lane() == 0 ? rest : 0;
    word_count_ += whole;
    waiting_count_ = total % 32;
  }
  // Writes the last word and returns the number of bits.
  XORBIT_DEVICE uint32_t Finish() {
    if (waiting_count_ > 0 && Lane() == 0) *(words_end_ - 1 - word_count_) = buffer_[0];
    return 32 * word_count_ + waiting_count_;
  }

 private:
  uint32_t* words_end_;
  uint32_t* buffer_;
  uint32_t word_count_ = 0;
  uint32_t waiting_count_ = 0;  // bits in the buffer's first word, at its top
};

// Word i of a finished stream. One lane's own.
XORBIT_DEVICE uint32_t StreamWord(const uint32_t* words_end, uint32_t bit_count, uint32_t i) {
  const uint32_t word_count = (bit_count + 31) / 32;
  const uint32_t* const word = words_end - word_count + i;
  const uint32_t next = i + 1 < word_count ? word[1] : 0;
  return FunnelShift(word[0], next, (32 - bit_count % 32) % 32);
}

}  // namespace xorbit::cuda
