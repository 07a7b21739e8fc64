// Frames that nobody vouches for, decoded as a GPU does it, on an emulated warp: it ends, stays inside the mask, and where the
// stock decoder takes them too, for the same bytes.
#include <array>
#include <cstdlib>
#include <vector>

#include "backend/cuda/mask/frame_decode.h"
#include "backend/cuda/testing/marked_mask.h"
#include "backend/cuda/testing/warp_emulator.h"
#include "codec/mask_inner.h"

namespace xorbit::cuda {
namespace {

// The first bytes choose codec, alignment and length of the mask; the rest is the frame.
void Run(ConstBytes data) {
  if (data.size() < 5) return;
  const bool is_snappy = data[0] % 2 == 0;
  const uint64_t skew = data[1] % kVectorBytes;
  const uint32_t mask_bytes = 1 + data[2] + 256 * (data[3] % 32);
  const ConstBytes frame = data.subspan(4);
  std::vector<WordVector> vectors((skew + frame.size() + kVectorBytes - 1) / kVectorBytes);
  uint8_t* placed = reinterpret_cast<uint8_t*>(vectors.data()) + skew;
  std::copy(frame.begin(), frame.end(), placed);
  const auto frame_bytes = static_cast<uint32_t>(frame.size());
  std::array<WordVector, kRingBytes / kVectorBytes> ring{};
  std::array<uint32_t, 8> groups{};
  static_assert(256 * 32 <= 8 * kGroupWordBytes);
  Buffer slot(groups.size() * kGroupWordBytes, 0xa5);
  FrameError error = FrameError::kNone;
  RunWarp([&] {
    const FrameError found =
        is_snappy ? DecodeFrame<InnerKind::kSnappy>(placed, frame_bytes, slot.data(), mask_bytes, groups.data(), ring.data())
                  : DecodeFrame<InnerKind::kLz4>(placed, frame_bytes, slot.data(), mask_bytes, groups.data(), ring.data());
    if (Lane() == 0) error = found;
  });
  const Buffer mask = testing::MarkedMask(ConstBytes(slot).first(mask_bytes), groups);
  Buffer want(mask_bytes);
  const bool is_valid = (is_snappy ? SnappyInner() : Lz4Inner()).Decode(frame, want).ok();
  if (error == FrameError::kNone && is_valid && mask != want) std::abort();
  if (is_snappy && is_valid != (error == FrameError::kNone)) std::abort();
}

}  // namespace
}  // namespace xorbit::cuda

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) xorbit::cuda::Run({data, size});
  return 0;
}
