// One frame by one warp, into a mask that is zero: bounded whatever its bytes say, since every token takes some of them and
// writes at most what is left of the mask.
#pragma once

#include "backend/cuda/mask/lz4_decode.h"
#include "backend/cuda/mask/snappy_decode.h"

namespace xorbit::cuda {

// On an error some of the mask may have been written. `groups`: as for FrameOutput; `ring`: as for InputWindow.
template <InnerKind kKind>
XORBIT_DEVICE FrameError DecodeFrame(const uint8_t* inner, uint32_t inner_bytes, uint8_t* mask, uint32_t mask_bytes,
                                     uint32_t* groups, WordVector* ring) {
  InputWindow input(inner, inner_bytes, ring);
  FrameOutput output(mask, mask_bytes, groups);
  if constexpr (kKind == InnerKind::kSnappy) {
    return SnappyDecoder(&input, &output).Decode();
  } else {
    return Lz4Decoder(&input, &output).Decode();
  }
}

}  // namespace xorbit::cuda
