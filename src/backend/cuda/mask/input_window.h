// A frame's coded bytes as a warp reads them: any byte of the next few hundred, whichever lane asks.
//
// The warp keeps a ring in fast memory and has the next half of it in flight in its registers, so that it seldom waits for
// memory, be it the device's or, over the bus, the host's.
#pragma once

#include "backend/cuda/word_vector.h"

namespace xorbit::cuda {

inline constexpr uint32_t kRingBytes = 1024;

// All lanes of a warp use it together; `bytes` as for kInnerAlignment.
class InputWindow {
  static constexpr uint32_t kHalfBytes = kWarpLanes * kVectorBytes;
  static_assert(kRingBytes == 2 * kHalfBytes);

 public:
  // As many bytes from where Reach() said may be read by At().
  static constexpr uint32_t kAheadBytes = 256;

  // `ring`: kRingBytes of fast memory, the warp's own.
  XORBIT_DEVICE InputWindow(const uint8_t* bytes, uint32_t byte_count, WordVector* ring)
      : bytes_(bytes),
        byte_count_(byte_count),
        skew_(static_cast<uint32_t>(reinterpret_cast<uint64_t>(bytes) % kVectorBytes)),
        ring_(ring) {
    next_ = Load(0);
  }

  XORBIT_DEVICE uint32_t byte_count() const { return byte_count_; }

  // Brings bytes [at, at + kAheadBytes) into the ring, as far as there are any. Bytes before `at` may be gone.
  XORBIT_DEVICE void Reach(uint32_t at) {
    const uint32_t begin = at + skew_;
    if (begin > loaded_) {  // something long was read past the ring
      loaded_ = begin / kHalfBytes * kHalfBytes;
      next_ = Load(loaded_);
    }
    while (loaded_ < begin + kAheadBytes && loaded_ < skew_ + byte_count_) {
      SyncWarp();  // what is overwritten has been read
      ring_[loaded_ % kRingBytes / kVectorBytes + Lane()] = next_;
      loaded_ += kHalfBytes;
      next_ = Load(loaded_);
      SyncWarp();
    }
  }

  XORBIT_DEVICE uint32_t At(uint32_t at) const { return reinterpret_cast<const uint8_t*>(ring_)[(at + skew_) % kRingBytes]; }
  // Any byte of the frame, from memory.
  XORBIT_DEVICE uint32_t Far(uint32_t at) const { return LoadBody(bytes_ + at); }

 private:
  // This lane's vector of the half that begins at `at`, counted from the vector that holds the frame's first byte.
  XORBIT_DEVICE WordVector Load(uint32_t at) const {
    const uint32_t mine = at + Lane() * kVectorBytes;
    if (mine >= skew_ + byte_count_) return {};
    const uint8_t* from = bytes_ - skew_ + mine;
#ifdef __CUDACC__
    const uint4 words = __ldg(reinterpret_cast<const uint4*>(from));
    return {{words.x, words.y, words.z, words.w}};
#else
    return *reinterpret_cast<const WordVector*>(from);
#endif
  }

  const uint8_t* bytes_;
  uint32_t byte_count_;
  uint32_t skew_;
  WordVector* ring_;
  uint32_t loaded_ = 0;  // the ring holds the kRingBytes before this, counted as in Load
  WordVector next_;      // what follows them
};

}  // namespace xorbit::cuda
