#include "codec/mask_decoder.h"

#include <bit>
#include <string>

#include "base/unit.h"
#include "base/xxh3.h"
#include "codec/change_digest.h"

namespace xorbit {
namespace {

Status FrameError(uint64_t index, const std::string& why) { return CorruptError("frame " + std::to_string(index) + " " + why); }

FrameRecord RecordAt(ConstBytes records, uint64_t index) {
  return LoadLe<FrameRecord>(records.data() + index * sizeof(FrameRecord));
}

// What one record must satisfy by itself; where it stands is CheckFrames' business.
Status CheckFrame(const FrameRecord& record, uint64_t index, const InnerCodec& inner, uint32_t unit_bytes, bool has_digests) {
  const uint64_t mask_bytes = uint64_t{record.element_count} * unit_bytes;
  if (record.reserved != 0) return FrameError(index, "sets a reserved field");
  if (record.element_count == 0) return FrameError(index, "spans no elements");
  if (mask_bytes > kMaxFrameBytes) return FrameError(index, "is longer than " + std::to_string(kMaxFrameBytes) + " bytes");
  if (record.change_count == 0) return FrameError(index, "changes nothing and should have been omitted");
  if (record.change_count > record.element_count) return FrameError(index, "has more changes than elements");
  if (record.inner_bytes == 0 || record.inner_bytes > inner.MaxInnerBytes(mask_bytes)) {
    return FrameError(index, "has an impossible encoded length");
  }
  if (has_digests && record.before == record.after && !MayDigestsBeEqual(unit_bytes, record.change_count)) {
    return FrameError(index, "has a digest that says that nothing changes");
  }
  if (!has_digests && (record.before != 0 || record.after != 0)) return FrameError(index, "has digests in a payload without");
  return {};
}

// Appends the element at `offset` if it is not zero; false if there are more than `limit`.
template <uint32_t kUnitBytes>
bool TakeElement(const uint8_t* mask, uint64_t offset, uint64_t limit, DecodedRecord* out) {
  const uint64_t bits = UnitBits(mask + offset * kUnitBytes, kUnitBytes);
  if (bits == 0) return true;
  if (out->count == limit) return false;
  out->offsets[out->count] = static_cast<uint32_t>(offset);
  std::memcpy(out->xors.data() + out->count * kUnitBytes, &bits, kUnitBytes);
  ++out->count;
  return true;
}

// Non-zero elements of the mask; false if there are more than `limit`, for which `out` has room.
template <uint32_t kUnitBytes>
bool Extract(ConstBytes mask, uint64_t limit, DecodedRecord* out) {
  constexpr uint64_t kBlockBytes = 64;
  uint64_t at = 0;
  for (; at + kBlockBytes <= mask.size(); at += kBlockBytes) {
    const uint8_t* block = mask.data() + at;
    uint64_t any = 0;
    for (uint64_t word = 0; word < kBlockBytes; word += 8) any |= LoadLe<uint64_t>(block + word);
    if (any == 0) continue;  // nearly always
    for (uint64_t word = 0; word < kBlockBytes; word += 8) {
      uint64_t rest = LoadLe<uint64_t>(block + word);
      while (rest != 0) {
        const uint64_t lane = static_cast<uint64_t>(std::countr_zero(rest)) / (8 * kUnitBytes);
        if (!TakeElement<kUnitBytes>(mask.data(), (at + word) / kUnitBytes + lane, limit, out)) return false;
        rest &= kUnitBytes == 8 ? 0 : ~(((uint64_t{1} << (8 * kUnitBytes % 64)) - 1) << (8 * kUnitBytes * lane));
      }
    }
  }
  for (uint64_t offset = at / kUnitBytes; offset < mask.size() / kUnitBytes; ++offset) {
    if (!TakeElement<kUnitBytes>(mask.data(), offset, limit, out)) return false;
  }
  return true;
}

// Bytes of the inner stream that the frames make up, if their records are well-formed, ascend and stay inside their parts.
Result<uint64_t> CheckFrames(const InnerCodec& inner, const SegmentMap& map, const EncodedSegmentView& view) {
  uint64_t at = 0;           // first element that a frame may start at
  uint64_t inner_bytes = 0;  // sums of 32-bit numbers over records in memory cannot overflow
  uint64_t change_count = 0;
  for (uint64_t index = 0; index < view.record_count; ++index) {
    const FrameRecord record = RecordAt(view.records, index);
    XORBIT_RETURN_IF_ERROR(CheckFrame(record, index, inner, map.unit_bytes(), view.has_digests));
    if (record.first < at) return FrameError(index, "overlaps the one before or is out of order");
    if (record.first >= map.element_count()) return FrameError(index, "starts past the segment's end");
    if (record.element_count > map.part_start(map.PartAt(record.first) + 1) - record.first) {
      return FrameError(index, "reaches past the end of its part");
    }
    if (record.inner_offset != inner_bytes) return FrameError(index, "does not follow the one before in the inner stream");
    at = record.first + record.element_count;
    inner_bytes += record.inner_bytes;
    change_count += record.change_count;
  }
  if (change_count != view.change_count) return CorruptError("the frames' changes do not add up to the segment's");
  return inner_bytes;
}

}  // namespace

Result<std::unique_ptr<MaskDecoder>> MaskDecoder::Open(const InnerCodec& inner, bool has_outer, const SegmentMap& map,
                                                       const EncodedSegmentView& view) {
  if (!view.tables.empty()) return CorruptError("mask codecs have no tables");
  if (view.records.size() % sizeof(FrameRecord) != 0 || view.records.size() / sizeof(FrameRecord) != view.record_count) {
    return CorruptError("the number of frames does not fit their records");
  }
  XORBIT_ASSIGN_OR_RETURN(const uint64_t inner_bytes, CheckFrames(inner, map, view));
  Parts parts{&inner, &map, view.records, view.body, nullptr};
  if (has_outer) {
    XORBIT_ASSIGN_OR_RETURN(parts.outer, OuterChunks::Open(view.outer, view.body, inner_bytes));
  } else {
    if (!view.outer.empty()) return CorruptError("this codec has no outer chunks");
    if (view.body.size() != inner_bytes) return CorruptError("the frames do not fill the body");
  }
  return std::make_unique<MaskDecoder>(std::move(parts));
}

FrameRecord MaskDecoder::frame(uint64_t record_index) const { return RecordAt(parts_.records, record_index); }

RecordInfo MaskDecoder::info(uint64_t record_index) const {
  const FrameRecord record = frame(record_index);
  return {record.first, record.first + record.element_count - 1, record.change_count, record.before, record.after};
}

Result<ConstBytes> MaskDecoder::InnerFrame(uint64_t record_index, uint8_t* room) const {
  const FrameRecord record = frame(record_index);
  if (parts_.outer == nullptr) return parts_.inner_stream.subspan(record.inner_offset, record.inner_bytes);
  XORBIT_RETURN_IF_ERROR(parts_.outer->Read(record.inner_offset, record.inner_bytes, room));
  return ConstBytes(room, record.inner_bytes);
}

Status MaskDecoder::Decode(uint64_t record_index, DecodedRecord* out) const {
  const FrameRecord record = frame(record_index);
  const uint64_t mask_bytes = uint64_t{record.element_count} * parts_.map->unit_bytes();
  const uint64_t room_bytes = parts_.outer == nullptr ? 0 : record.inner_bytes;
  if (out->scratch.size() < mask_bytes + room_bytes) out->scratch.resize(mask_bytes + room_bytes);
  const MutableBytes mask = MutableBytes(out->scratch).first(mask_bytes);
  XORBIT_ASSIGN_OR_RETURN(const ConstBytes inner, InnerFrame(record_index, out->scratch.data() + mask_bytes));
  if (Xxh3Hash64Of(inner) != record.inner_hash) return FrameError(record_index, "does not match its hash");
  XORBIT_RETURN_IF_ERROR(parts_.inner->Decode(inner, mask).WithContext("frame " + std::to_string(record_index)));
  out->count = 0;
  if (out->offsets.size() < record.change_count) out->offsets.resize(record.change_count);
  if (out->xors.size() < uint64_t{record.change_count} * parts_.map->unit_bytes()) {
    out->xors.resize(uint64_t{record.change_count} * parts_.map->unit_bytes());
  }
  const bool within_limit = WithUnit(parts_.map->unit_bytes(),
                                     [&]<typename Unit>() { return Extract<sizeof(Unit)>(mask, record.change_count, out); });
  if (!within_limit || out->count != record.change_count) {
    return FrameError(record_index, "does not have as many changes as it states");
  }
  return {};
}

}  // namespace xorbit
