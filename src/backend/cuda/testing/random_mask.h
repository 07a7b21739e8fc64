// Masks of every shape, as inner frames by our encoders and by the stock ones, placed as a receiver places them: what tests of
// frame decoders decode. No product code includes it.
#pragma once

#include <lz4.h>
#include <snappy.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/mask/frame_on_device.h"
#include "codec/mask_inner.h"

namespace xorbit::cuda::testing {

inline const InnerCodec& CodecOf(InnerKind kind) { return kind == InnerKind::kSnappy ? SnappyInner() : Lz4Inner(); }

// Random bytes in clusters between zero runs, from nearly empty to dense, and sometimes with a pattern that repeats.
inline Buffer RandomMaskBytes(std::mt19937_64& random, uint64_t mask_bytes) {
  Buffer mask(mask_bytes);
  const uint64_t longest_run = uint64_t{1} << random() % 14;
  const uint64_t longest_cluster = uint64_t{1} << random() % 8;
  const uint64_t period = random() % 4 == 0 ? 1 + random() % 40 : 0;
  for (uint64_t at = random() % longest_run; at < mask_bytes; at += random() % longest_run) {
    for (uint64_t left = random() % longest_cluster + 1; left > 0 && at < mask_bytes; --left, ++at) {
      mask[at] = period > 0 && at >= period ? mask[at - period] : static_cast<uint8_t>(random());
    }
  }
  return mask;
}

inline Buffer EncodeMaskBytes(InnerKind kind, const Buffer& mask) {
  std::vector<uint32_t> positions;
  Buffer values;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    positions.push_back(static_cast<uint32_t>(i));
    values.push_back(mask[i]);
  }
  const InnerCodec& codec = CodecOf(kind);
  const auto room = std::make_unique<uint8_t[]>(codec.MaxInnerBytes(mask.size()) + kInnerSlackBytes);
  Buffer scratch;
  const uint64_t byte_count = codec.Encode({mask.size(), positions, values.data()}, 0, room.get(), &scratch).value();
  return Buffer(room.get(), room.get() + byte_count);
}

inline Buffer EncodeByStockLibrary(InnerKind kind, const Buffer& mask) {
  const auto* bytes = reinterpret_cast<const char*>(mask.data());
  std::string encoded;
  if (kind == InnerKind::kSnappy) {
    snappy::Compress(bytes, mask.size(), &encoded);
  } else {
    encoded.resize(static_cast<size_t>(LZ4_compressBound(static_cast<int>(mask.size()))));
    encoded.resize(static_cast<size_t>(
        LZ4_compress_default(bytes, encoded.data(), static_cast<int>(mask.size()), static_cast<int>(encoded.size()))));
  }
  return Buffer(encoded.begin(), encoded.end());
}

// Some bits flipped, bytes replaced by ones that mean something, or cut short.
inline void DamageFrame(std::mt19937_64& random, Buffer* frame) {
  for (uint64_t i = random() % 3 + 1; i > 0 && !frame->empty(); --i) {
    uint8_t& byte = (*frame)[random() % frame->size()];
    switch (random() % 4) {
      case 0:
        byte ^= static_cast<uint8_t>(1U << random() % 8);
        break;
      case 1:
        byte = 0xff;
        break;
      case 2:
        byte = static_cast<uint8_t>(random());
        break;
      default:
        frame->resize(random() % frame->size() + 1);
    }
  }
}

}  // namespace xorbit::cuda::testing
