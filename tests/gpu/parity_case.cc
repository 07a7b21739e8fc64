// A case is made from its seed alone, so that a failure can be repeated by naming it.
#include "parity_case.h"

#include <algorithm>

namespace xorbit::gpu_check {

using cuda::RegionBounds;
using cuda::testing::Download;
using cuda::testing::Upload;

std::string Where(const Case& c, const std::string& what) { return "parity seed " + std::to_string(c.seed) + ": " + what; }

Result<Case> MakeCase(const Backend& backend, uint64_t seed, CodecId codec, const EncodeOptions& encoding) {
  Case c;
  c.seed = seed;
  XORBIT_ASSIGN_OR_RETURN(c.update, cuda::testing::MakeRandomUpdate(backend, seed, 20'000, codec, encoding));
  Random random(seed);
  c.map = seed % 4 == 0 ? CanonicalMap(c.layout()) : RandomLiveMap(random, c.layout()).Make();
  const bool half_bytes = std::any_of(c.map.pieces().begin(), c.map.pieces().end(),
                                      [&](const Piece& piece) { return c.map.class_of(piece).granule_bits < 8; });
  uint64_t at = 0;
  for (const LiveRegion& region : c.map.regions()) {
    at = half_bytes ? (at + 3) / 4 * 4 : at + Between(random, 0, 7);
    if (seed % 8 == 0) at = (at + 15) / 16 * 16;  // so that tiles can be laid out
    const uint64_t end = at + region.byte_count;
    c.regions.push_back({at, half_bytes ? (end + 3) / 4 * 4 : end});
    at = end;
  }
  XORBIT_ASSIGN_OR_RETURN(c.memory, cuda::DeviceBuffer::Make(at + 8));
  // Between regions, too: vectors at the ends of a tile are read whole.
  XORBIT_RETURN_IF_ERROR(Upload(c.memory.data_dev(), Buffer(at + 8, uint8_t{0xa5})));
  for (RegionBounds& region : c.regions) {
    region.begin += reinterpret_cast<uint64_t>(c.memory.data_dev());
    region.end += reinterpret_cast<uint64_t>(c.memory.data_dev());
  }
  return c;
}

std::vector<Buffer> ImageOf(const Case& c, const RandomTensors& tensors) {
  std::vector<Buffer> image;
  for (const LiveRegion& region : c.map.regions()) image.emplace_back(region.byte_count, uint8_t{0xa5});
  const auto canonical = tensors.bytes();
  for (const Piece& piece : c.map.pieces()) {
    const uint32_t bits = c.map.class_of(piece).granule_bits;
    ForEachGranule(c.map, piece, [&](uint64_t from, uint64_t to) {
      WriteGranule(image[piece.region_index], to, bits, ReadGranule(canonical[piece.tensor_index], from, bits));
    });
  }
  return image;
}

uint8_t* RegionOnDevice(const Case& c, size_t region_index) {
  return reinterpret_cast<uint8_t*>(c.regions[region_index].begin);
}

Status SetLive(const Case& c, const RandomTensors& tensors) {
  const std::vector<Buffer> image = ImageOf(c, tensors);
  for (size_t i = 0; i < image.size(); ++i) {
    if (!image[i].empty()) XORBIT_RETURN_IF_ERROR(Upload(RegionOnDevice(c, i), image[i]));
  }
  return {};
}

std::string FirstDifference(const Case& c, const RandomTensors& tensors) {
  const std::vector<Buffer> image = ImageOf(c, tensors);
  for (size_t i = 0; i < image.size(); ++i) {
    Buffer got(image[i].size());
    if (got.empty()) continue;
    const Status status = Download(got, RegionOnDevice(c, i));
    if (!status.ok()) return status.message();
    const auto [a, b] = std::mismatch(got.begin(), got.end(), image[i].begin());
    if (a == got.end()) continue;
    return "region " + std::to_string(i) + " of " + std::to_string(got.size()) + " bytes at " +
           std::to_string(c.regions[i].begin % 256) + ", byte " + std::to_string(a - got.begin()) + ": expected " +
           std::to_string(*b) + ", got " + std::to_string(*a);
  }
  return "";
}

}  // namespace xorbit::gpu_check
