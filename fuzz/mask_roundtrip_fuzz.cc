// Changes of every shape through a mask codec and back: the same changes.
//
// Input: unit and codec, frame length, then changes of two bytes each (gap, XOR), where a gap of 255 skips 2000 elements.
#include "codec/mask_codec.h"
#include "mask_segment.h"

namespace xorbit {
namespace {

std::vector<ElementChange> ChangesOf(ConstBytes input, const SegmentMap& map) {
  std::vector<ElementChange> changes;
  uint64_t next = 0;
  for (size_t i = 0; i + 1 < input.size(); i += 2) {
    next += input[i] == 255 ? 2000 : input[i];
    if (next >= map.element_count()) break;
    // Every byte of the element in turn, so that masks have zero bytes inside changed elements.
    const uint64_t shift = 8 * (i / 2 % map.unit_bytes());
    const uint64_t bits = input[i + 1] == 0 ? 1 : input[i + 1];
    changes.push_back({next++, uint64_t{input[i]} << shift, bits << shift});
  }
  return changes;
}

void Fuzz(ConstBytes input) {
  if (input.size() < 2) return;
  const SegmentMap map = FuzzMap(input[0]);
  const uint64_t keys[] = {1, 2};
  const ListSource source(map.unit_bytes(), map.element_count(), ChangesOf(input.subspan(2), map), true);
  const Codec& codec = *MaskCodecs()[input[0] / 4 % MaskCodecs().size()];
  const EncodeOptions options = {.frame_bytes = 8 * (uint64_t{1} + input[1])};
  const SegmentImage image(codec.Encode(map, keys, source, options).value());
  const auto decoded = DecodeAll(*codec.Open(map, image.view()).value(), map.unit_bytes());
  std::vector<ElementChange> changes = ReadAllChanges(source).value();
  for (ElementChange& change : changes) change.old_bits = 0;
  if (!decoded.ok() || *decoded != changes) std::abort();
}

}  // namespace
}  // namespace xorbit

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  xorbit::Fuzz({data, size});
  return 0;
}
