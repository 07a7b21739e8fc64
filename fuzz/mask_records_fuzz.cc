// The mask reader on arbitrary head sections and bodies: frame records, outer records, outer chunks.
//
// Input: one byte each for unit and digests, codec; u16 lengths of records and outer section; then these sections and the body.
#include "codec/mask_codec.h"
#include "mask_segment.h"

namespace xorbit {
namespace {

void Fuzz(ConstBytes input) {
  if (input.size() < 6) return;
  const SegmentMap map = FuzzMap(input[0]);
  const Codec& codec = *MaskCodecs()[input[1] % MaskCodecs().size()];
  const uint64_t records_bytes = LoadLe<uint16_t>(input.data() + 2);
  const uint64_t outer_bytes = LoadLe<uint16_t>(input.data() + 4);
  input = input.subspan(6);
  if (records_bytes + outer_bytes > input.size()) return;
  EncodedSegmentView view;
  view.has_digests = false;
  view.records = input.first(records_bytes);
  view.outer = input.subspan(records_bytes, outer_bytes);
  view.body = input.subspan(records_bytes + outer_bytes);
  view.record_count = records_bytes / sizeof(FrameRecord);
  for (uint64_t i = 0; i < view.record_count; ++i) {
    const auto record = LoadLe<FrameRecord>(view.records.data() + i * sizeof(FrameRecord));
    view.change_count += record.change_count;
    view.has_digests |= record.before != record.after;
  }
  const auto decoder = codec.Open(map, view);
  if (!decoder.ok()) return;
  const auto changes = DecodeAll(**decoder, map.unit_bytes());
  if (!changes.ok() && changes.status().message().starts_with("broken promise")) std::abort();
}

}  // namespace
}  // namespace xorbit

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  xorbit::Fuzz({data, size});
  return 0;
}
