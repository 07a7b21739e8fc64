#include "tensor/segment_bytes.h"

#include <cassert>
#include <string>

namespace xorbit {

SegmentBytes::SegmentBytes(const SegmentMap& map, bool in_tensors)
    : unit_bytes_(map.unit_bytes()), in_tensors_(in_tensors), bases_(map.parts().size()) {}

SegmentBytes SegmentBytes::InTensors(const SegmentMap& map, std::span<const ConstBytes> tensors) {
  SegmentBytes bytes(map, /*in_tensors=*/true);
  for (size_t i = 0; i < map.parts().size(); ++i) bytes.bases_[i].bytes = tensors[map.parts()[i].tensor_index].data();
  return bytes;
}

Result<SegmentBytes> SegmentBytes::InParts(const SegmentMap& map, std::span<const ConstBytes> parts) {
  if (parts.size() != map.parts().size()) {
    return UsageError("a segment of " + std::to_string(map.parts().size()) + " parts was given the bytes of " +
                      std::to_string(parts.size()));
  }
  SegmentBytes bytes(map, /*in_tensors=*/false);
  for (size_t i = 0; i < parts.size(); ++i) {
    const uint64_t expected_bytes = map.parts()[i].element_count() * map.unit_bytes();
    if (parts[i].size() != expected_bytes) {
      return UsageError("part " + std::to_string(i) + " has " + std::to_string(expected_bytes) + " bytes, but " +
                        std::to_string(parts[i].size()) + " were given");
    }
    bytes.bases_[i] = {parts[i].data(), map.part_start(i)};
  }
  return bytes;
}

SegmentBytes SegmentBytes::InImage(const SegmentMap& map, ConstBytes image) {
  assert(image.size() == map.byte_count());
  SegmentBytes bytes(map, /*in_tensors=*/false);
  for (Base& base : bytes.bases_) base.bytes = image.data();
  return bytes;
}

std::vector<SegmentBytes> InTensors(std::span<const SegmentMap> maps, std::span<const ConstBytes> tensors) {
  std::vector<SegmentBytes> bytes;
  bytes.reserve(maps.size());
  for (const SegmentMap& map : maps) bytes.push_back(SegmentBytes::InTensors(map, tensors));
  return bytes;
}

}  // namespace xorbit
