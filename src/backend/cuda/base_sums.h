// The digest of the old bytes, summed by the diff as it passes: for lines whose vectors are quarters of the digest's blocks.
#pragma once

#include "backend/cuda/line_view.h"
#include "backend/cuda/live_place.h"

namespace xorbit::cuda {

// One lane's sums. Four neighbouring lanes hold the 64 bytes of a block; with four vectors a lane they hold four blocks, and
// each lane mixes the index of one of them and hands its factor to the other three.
class BaseSums {
 public:
  static constexpr bool kWanted = true;
  XORBIT_DEVICE BaseSums() {
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t i = 0; i < 8; ++i)
      factors_[i / 4][i % 4] = WordFactorAt(kDigestWordsPerBlock * (i / 4) + 4 * (Lane() % 4) + i % 4);
  }
  // A line whose first byte begins block `block_index` of its tensor. All lanes together.
  XORBIT_DEVICE void Add(const LoadedLine& line, uint64_t tensor_key, uint64_t block_index) {
    static_assert(kVectorsAtOnce == 4 && kDigestBlockBytes == 4 * kVectorBytes);
    const uint32_t own_vector = Lane() % 4 * kWarpLanes + Lane();
    const uint64_t own = SplitMix64(tensor_key ^ (block_index + own_vector / 4));
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t j = 0; j < kVectorsAtOnce; ++j) {
      const uint64_t h = ShuffleFrom(own, Lane() / 4 * 4 + j);
      const uint32_t words[4] = {static_cast<uint32_t>(line.olds[j].low), static_cast<uint32_t>(line.olds[j].low >> 32),
                                 static_cast<uint32_t>(line.olds[j].high), static_cast<uint32_t>(line.olds[j].high >> 32)};
      uint64_t inner[2] = {0, 0};
#ifdef __CUDACC__
#pragma unroll
#endif
      for (uint32_t i = 0; i < 8; ++i) inner[i / 4] += factors_[i / 4][i % 4] * words[i % 4];
      sums_[0] += (h | 1) * inner[0];
      sums_[1] += ((h << 32 | h >> 32) | 1) * inner[1];
    }
  }
  // All lanes together.
  XORBIT_DEVICE void AddTo(StateDigest* digest) const {
    const uint64_t lane0 = WarpSum(sums_[0]);
    const uint64_t lane1 = WarpSum(sums_[1]);
    if (Lane() != 0) return;
    AtomicAdd(&digest->lane0, lane0);
    AtomicAdd(&digest->lane1, lane1);
  }

 private:
  uint64_t factors_[2][4];  // of the words of this lane's quarter
  uint64_t sums_[2] = {0, 0};
};

// Where nobody asks for it.
class NoBaseSums {
 public:
  static constexpr bool kWanted = false;
  XORBIT_DEVICE void Add(const LoadedLine&, uint64_t, uint64_t) {}
  XORBIT_DEVICE void AddTo(StateDigest*) const {}
};

}  // namespace xorbit::cuda
