// The mask reader on arbitrary head sections and bodies: frame records, outer records, outer chunks; and what is accepted,
// record by record as portions of it.
//
// Input: one byte each for unit and digests, codec; u16 lengths of records and outer section; then these sections and the body.
#include "codec/mask_codec.h"
#include "codec/record_bytes.h"
#include "mask_segment.h"

namespace xorbit {
namespace {

// Of a segment that decodes to `changes`.
void CutIntoPortions(const Codec& codec, const SegmentMap& map, const EncodedSegmentView& view,
                     const std::vector<ElementChange>& changes) {
  const auto table = RecordTable::Open(codec.id(), view, view.body.size());
  if (!table.ok()) std::abort();
  std::vector<ElementChange> all;
  for (uint64_t i = 0; i < table->record_count(); ++i) {
    const RecordBytes bytes = table->at(i);
    const ConstBytes body = view.body.subspan(bytes.body_begin, bytes.body_end - bytes.body_begin);
    const auto portion = SegmentPortion::Make(*table, i, i + 1, 0, body, 1);
    if (!portion.ok()) std::abort();
    const auto decoder = FindCodec((*portion)->codec())->Open(map, (*portion)->view());
    if (!decoder.ok()) std::abort();
    const auto decoded = DecodeAll(**decoder, map.unit_bytes());
    if (!decoded.ok()) std::abort();
    all.insert(all.end(), decoded->begin(), decoded->end());
  }
  if (all != changes) std::abort();
}

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
  if (changes.ok()) CutIntoPortions(codec, map, view, *changes);
  if (!changes.ok() && changes.status().message().starts_with("broken promise")) std::abort();
}

}  // namespace
}  // namespace xorbit

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  xorbit::Fuzz({data, size});
  return 0;
}
