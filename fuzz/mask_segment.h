// Reads fuzz bytes as a segment of a mask codec: what the targets of the inner codecs share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/xxh3.h"
#include "codec/codec.h"
#include "codec/mask_format.h"
#include "codec/segment_image.h"
#include "tensor/segment.h"

namespace xorbit {

// A segment of two parts, one of them a column shard, of elements as wide as the first input byte says.
inline SegmentMap FuzzMap(uint8_t selector) {
  constexpr Dtype kDtypes[] = {Dtype::kU8, Dtype::kBF16, Dtype::kF32, Dtype::kF64};
  const Dtype dtype = kDtypes[selector % 4];
  const Layout layout =
      Layout::Make({{.name = "a", .dtype = dtype, .shape = {5000}}, {.name = "b", .dtype = dtype, .shape = {40, 100}}}).value();
  return SegmentMap::Make(layout, UnitBytesOf(dtype), 0, {WholeTensor(layout, 0), {1, 10, {{40, 100}, {30, 1}}}}).value();
}

// One frame, whose inner frame is all of `input` after four bytes for unit, length, count; its hash is right, so that the
// search reaches the inner decoder. Whatever is accepted must keep the decoder's promises and survive another encode and
// decode.
inline void FuzzInnerFrame(const Codec& codec, ConstBytes input) {
  if (input.size() < 5) return;
  const SegmentMap map = FuzzMap(input[0]);
  const ConstBytes inner = input.subspan(4);
  FrameRecord record = {};
  record.element_count = uint32_t{1} + LoadLe<uint16_t>(input.data() + 1) % 5000;
  record.change_count = uint32_t{1} + input[3];
  record.inner_bytes = static_cast<uint32_t>(inner.size());
  record.inner_hash = Xxh3Hash64Of(inner);
  Buffer records;
  AppendLe(records, record);
  EncodedSegmentView view;
  view.record_count = 1;
  view.change_count = record.change_count;
  view.records = records;
  view.body = inner;
  const auto decoder = codec.Open(map, view);
  if (!decoder.ok()) return;
  const auto changes = DecodeAll(**decoder, map.unit_bytes());
  if (!changes.ok()) {
    if (changes.status().message().starts_with("broken promise")) std::abort();
    return;
  }
  const uint64_t keys[] = {1, 2};
  const ListSource source(map.unit_bytes(), map.element_count(), *changes, false);
  const SegmentImage again(codec.Encode(map, keys, source, {.frame_bytes = 4096}).value());
  const auto decoded = DecodeAll(*codec.Open(map, again.view()).value(), map.unit_bytes());
  if (!decoded.ok() || *decoded != *changes) std::abort();
}

}  // namespace xorbit
