// One Zstd frame over the dense mask: what the field's XOR formats ship, and the yardstick for the others. The mask is built
// and searched, so it is also the slowest.
#include "codec/mask_inner.h"
#include "codec/zstd_frame.h"

namespace xorbit {
namespace {

class Zstd final : public InnerCodec {
 public:
  uint64_t MaxInnerBytes(uint64_t mask_bytes) const override { return MaxZstdFrameBytes(mask_bytes); }

  Result<uint64_t> Encode(const SparseMask& mask, int zstd_level, uint8_t* target, Buffer* scratch) const override {
    // Room for what CopyMaskBytes may write past the end of a short mask.
    if (scratch->size() < mask.mask_bytes + sizeof(uint64_t)) scratch->resize(mask.mask_bytes + sizeof(uint64_t));
    CopyMaskBytes(mask, 0, mask.mask_bytes, 0, mask.positions.size(), scratch->data());
    return CompressZstdFrame({scratch->data(), mask.mask_bytes}, zstd_level, target);
  }

  Status Decode(ConstBytes inner, MutableBytes mask) const override { return DecompressZstdFrame(inner, mask); }
};

}  // namespace

const InnerCodec& ZstdInner() {
  static const Zstd codec;
  return codec;
}

}  // namespace xorbit
