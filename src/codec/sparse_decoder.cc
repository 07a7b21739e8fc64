#include "codec/sparse_decoder.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/checked_math.h"
#include "base/unit.h"
#include "codec/change_digest.h"
#include "codec/sparse_table_set.h"

namespace xorbit {
namespace {

Status BadTile(uint64_t record_index, const char* why) {
  return CorruptError("sparse tile " + std::to_string(record_index) + ": " + why);
}

TileRecord RecordAt(const EncodedSegmentView& view, uint64_t record_index) {
  TileRecord record;
  std::memcpy(&record, view.records.data() + record_index * sizeof(TileRecord), sizeof(record));
  return record;
}

// Everything about a record that its neighbours have no say in. Null if it is fine.
const char* CheckRecord(const TileRecord& record, const SegmentTables& tables, bool has_digests, uint32_t unit_bytes) {
  if (record.mode > static_cast<uint8_t>(TileMode::kPlain)) return "unknown mode";
  if (record.table_set != 0) return "unknown table set";
  if (record.count_minus_1 > record.span) return "more changes than elements";
  if (record.count_minus_1 == 0 && record.span != 0) return "one change, but more than one element";
  const auto mode = static_cast<TileMode>(record.mode);
  if ((mode == TileMode::kSparse || mode == TileMode::kPlain) && record.count_minus_1 >= kMaxTileChanges)
    return "too many changes";
  if (mode == TileMode::kSparse && !tables.has_sparse()) return "the segment has no tables for its mode";
  if (mode == TileMode::kDense && !tables.has_dense()) return "the segment has no tables for its mode";
  if (mode == TileMode::kDense && record.span >= kWindowElements) return "a dense tile of more than 65536 elements";
  if (has_digests && record.before == record.after && !MayDigestsBeEqual(unit_bytes, uint64_t{record.count_minus_1} + 1)) {
    return "the same digest before and after";
  }
  if (!has_digests && (record.before != 0 || record.after != 0)) return "digests in a payload without them";
  return nullptr;
}

Status CheckRecords(const EncodedSegmentView& view, const SegmentTables& tables, const SegmentMap& map) {
  const uint64_t element_count = map.element_count();
  if (CheckedMul(view.record_count, sizeof(TileRecord)) != view.records.size()) {
    return CorruptError("the sparse codec's records do not fit their count");
  }
  if (!view.outer.empty()) return CorruptError("the sparse codec has no outer records");
  uint64_t next_element = 0;
  uint64_t next_offset = 0;
  uint64_t change_count = 0;
  for (uint64_t i = 0; i < view.record_count; ++i) {
    const TileRecord record = RecordAt(view, i);
    if (const char* why = CheckRecord(record, tables, view.has_digests, map.unit_bytes())) return BadTile(i, why);
    if (record.first < next_element) return BadTile(i, "overlaps the tile before it");
    if (record.first >= element_count || record.span >= element_count - record.first) return BadTile(i, "leaves the segment");
    if (i == 0 ? record.offset != 0 : record.offset < next_offset) return BadTile(i, "its bytes overlap the tile before it");
    if (record.offset % kTileAlignment != 0 || record.offset >= view.body.size()) return BadTile(i, "its bytes leave the body");
    next_element = record.first + record.span + 1;
    next_offset = record.offset + kTileAlignment;
    change_count += uint64_t{record.count_minus_1} + 1;
  }
  if (view.record_count == 0 && !view.body.empty()) return CorruptError("a sparse body without tiles");
  if (change_count != view.change_count) return CorruptError("the sparse tiles' changes do not add up to the segment's");
  return {};
}

struct DecodeTables {
  DecodeTable gaps;
  std::array<std::unique_ptr<DecodeTable>, kMaxPlanes> planes;        // null for raw planes
  std::array<std::unique_ptr<DecodeTable>, kMaxPlanes> dense_planes;  // likewise
};

std::unique_ptr<DecodeTables> MakeDecodeTables(const SegmentTables& tables) {
  auto decode = std::make_unique<DecodeTables>();
  const auto fill = [](const SegmentTable& table, std::unique_ptr<DecodeTable>* target) {
    if (table.kind != TableKind::kCoded) return;
    *target = std::make_unique<DecodeTable>();
    FillDecodeTable(table.frequencies, target->get());
  };
  if (tables.has_sparse()) FillDecodeTable(tables.gaps.frequencies, &decode->gaps);
  for (uint32_t plane = 0; plane < kMaxPlanes; ++plane) {
    fill(tables.planes[plane], &decode->planes[plane]);
    fill(tables.dense_planes[plane], &decode->dense_planes[plane]);
  }
  return decode;
}

template <typename Value>
bool HasZeroValue(const uint8_t* xors, uint64_t count) {
  bool zero = false;
  for (uint64_t i = 0; i < count; ++i) zero |= LoadLe<Value>(xors + i * sizeof(Value)) == 0;
  return zero;
}

template <typename Value>
bool Compact(const uint8_t* elements, uint64_t element_count, DecodedRecord* out) {
  uint64_t kept = 0;
  for (uint64_t i = 0; i < element_count; ++i) {
    const Value value = LoadLe<Value>(elements + i * sizeof(Value));
    out->offsets[kept] = static_cast<uint32_t>(i);
    StoreLe(out->xors.data() + kept * sizeof(Value), value);
    if (value == 0) continue;
    if (++kept > out->count) return false;
  }
  return kept == out->count && LoadLe<Value>(elements) != 0 &&
         LoadLe<Value>(elements + (element_count - 1) * sizeof(Value)) != 0;
}

class SparseDecoder final : public SegmentDecoder {
 public:
  SparseDecoder(uint32_t unit_bytes, const EncodedSegmentView& view, const SegmentTables& tables, const SparseKernels& kernels)
      : unit_bytes_(unit_bytes), view_(view), tables_(MakeDecodeTables(tables)), kernels_(&kernels) {}

  uint64_t record_count() const override { return view_.record_count; }

  RecordInfo info(uint64_t record_index) const override {
    const TileRecord record = RecordAt(view_, record_index);
    return {record.first, record.first + record.span, uint64_t{record.count_minus_1} + 1, record.before, record.after};
  }

  Status Decode(uint64_t record_index, DecodedRecord* out) const override {
    const TileRecord record = RecordAt(view_, record_index);
    const ConstBytes bytes = BytesOf(record_index);
    out->count = uint64_t{record.count_minus_1} + 1;
    if (out->offsets.size() < out->count + kDecodeSlack) out->offsets.resize(out->count + kDecodeSlack);
    const size_t value_bytes = (out->count + kDecodeSlack) * unit_bytes_;
    if (out->xors.size() < value_bytes) out->xors.resize(value_bytes);
    if (const char* why = DecodeMode(record, bytes, out)) return BadTile(record_index, why);
    return {};
  }

 private:
  ConstBytes BytesOf(uint64_t record_index) const {
    const uint64_t begin = RecordAt(view_, record_index).offset;
    const uint64_t end = record_index + 1 < view_.record_count ? RecordAt(view_, record_index + 1).offset : view_.body.size();
    return view_.body.subspan(begin, end - begin);
  }

  // Null on success, else what is wrong with the tile.
  const char* DecodeMode(const TileRecord& record, ConstBytes bytes, DecodedRecord* out) const {
    switch (static_cast<TileMode>(record.mode)) {
      case TileMode::kSparse:
        return DecodeSparse(record, bytes, out);
      case TileMode::kDense:
        return DecodeDense(record, bytes, out);
      case TileMode::kRaw:
        return DecodeRaw(record, bytes, out);
      case TileMode::kPlain:
        return DecodePlain(record, bytes, out);
    }
    return "unknown mode";
  }

  const char* DecodeSparse(const TileRecord& record, ConstBytes bytes, DecodedRecord* out) const {
    TileDecode tile;
    tile.gaps = &tables_->gaps;
    tile.span = record.span;
    if (const char* why = DecodeCoded(static_cast<uint32_t>(out->count), tables_->planes, bytes, &tile, out)) return why;
    if (tile.offset != record.span) return "its changes end before its last element";
    return HasZero(*out) ? "an element that does not change" : nullptr;
  }

  const char* DecodeDense(const TileRecord& record, ConstBytes bytes, DecodedRecord* out) const {
    thread_local DecodedRecord elements;  // 64 Ki elements at most
    const uint32_t element_count = record.span + 1;
    if (elements.xors.size() < (size_t{element_count} + kDecodeSlack) * unit_bytes_) {
      elements.xors.resize((kWindowElements + kDecodeSlack) * unit_bytes_);
    }
    TileDecode tile;
    if (const char* why = DecodeCoded(element_count, tables_->dense_planes, bytes, &tile, &elements)) return why;
    return Keep(elements.xors.data(), element_count, out);
  }

  // Runs the symbol loops over a tile's bytes and checks that every stream is consumed exactly.
  const char* DecodeCoded(uint32_t count, const std::array<std::unique_ptr<DecodeTable>, kMaxPlanes>& planes, ConstBytes bytes,
                          TileDecode* tile, DecodedRecord* out) const {
    const uint64_t lane_count = std::min(count, kLanes);
    uint64_t raw_bytes = 0;
    for (uint32_t plane = 0; plane < unit_bytes_; ++plane) raw_bytes += planes[plane] == nullptr ? count : 0;
    const uint64_t fixed_bytes = 4 * lane_count + PaddedTileBytes(raw_bytes);
    if (bytes.size() < fixed_bytes || bytes.size() % kTileAlignment != 0) return "truncated";
    const uint8_t* next_plane = bytes.data() + 4 * lane_count;
    tile->unit_bytes = unit_bytes_;
    tile->count = count;
    for (uint32_t plane = 0; plane < unit_bytes_; ++plane) {
      tile->planes[plane] = planes[plane].get();
      if (planes[plane] != nullptr) continue;
      tile->plane_bytes[plane] = next_plane;
      next_plane += count;
    }
    tile->region_begin = bytes.data() + fixed_bytes;
    tile->region_end = bytes.data() + bytes.size();
    if (!IsAllZero({next_plane, tile->region_begin})) return "padding that is not zero";
    tile->states.fill(kStateFloor);
    std::memcpy(tile->states.data(), bytes.data(), 4 * lane_count);
    if (*std::min_element(tile->states.begin(), tile->states.end()) < kStateFloor) return "a lane starts below the floor";
    uint32_t* offsets = out->offsets.data();
    uint8_t* xors = out->xors.data();
    if (!DecodeGroupsCarefully(tile, 1, offsets, xors) || !kernels_->decode_groups(tile, offsets, xors) ||
        !DecodeGroupsCarefully(tile, UINT32_MAX, offsets, xors)) {
      return "its symbols leave its bytes or its span";
    }
    return CheckConsumed(*tile);
  }

  static const char* CheckConsumed(const TileDecode& tile) {
    if (std::any_of(tile.states.begin(), tile.states.end(), [](uint32_t state) { return state != kStateFloor; })) {
      return "a lane does not end where encoding began";
    }
    const uint64_t bit_bytes = 4 * DivideRoundUp(tile.bits_used, 32);
    if (PaddedTileBytes(2 * tile.words_used) + bit_bytes != tile.region_bytes()) return "bytes that no symbol uses";
    if (!IsAllZero({tile.region_begin + 2 * tile.words_used, tile.region_end - bit_bytes})) return "padding that is not zero";
    const uint32_t used = tile.bits_used % 32;
    if (used != 0 && LoadLe<uint32_t>(tile.region_end - bit_bytes) >> used != 0) return "padding that is not zero";
    return nullptr;
  }

  const char* DecodeRaw(const TileRecord& record, ConstBytes bytes, DecodedRecord* out) const {
    const uint64_t element_count = uint64_t{record.span} + 1;
    const uint64_t value_bytes = element_count * unit_bytes_;
    if (bytes.size() != PaddedTileBytes(value_bytes)) return "its length does not fit its span";
    if (!IsAllZero(bytes.subspan(value_bytes))) return "padding that is not zero";
    return Keep(bytes.data(), element_count, out);
  }

  const char* DecodePlain(const TileRecord& record, ConstBytes bytes, DecodedRecord* out) const {
    ByteReader reader(bytes);
    uint64_t offset = 0;
    for (uint64_t i = 0; i < out->count; ++i) {
      if (i > 0) {
        const Result<uint64_t> gap = reader.ReadVarint("a gap");
        if (!gap.ok() || *gap >= record.span - offset) return "a gap that is malformed or leaves its span";
        offset += *gap + 1;
      }
      const Result<ConstBytes> value = reader.ReadBytes(unit_bytes_, "a value");
      if (!value.ok()) return "truncated";
      out->offsets[i] = static_cast<uint32_t>(offset);
      std::memcpy(out->xors.data() + i * unit_bytes_, value->data(), unit_bytes_);
    }
    if (offset != record.span) return "its changes end before its last element";
    if (bytes.size() != PaddedTileBytes(reader.position())) return "bytes that no change uses";
    if (!IsAllZero(bytes.subspan(reader.position()))) return "padding that is not zero";
    return HasZero(*out) ? "an element that does not change" : nullptr;
  }

  bool HasZero(const DecodedRecord& record) const {
    return WithUnit(unit_bytes_, [&]<typename Unit>() { return HasZeroValue<Unit>(record.xors.data(), record.count); });
  }

  // Keeps the elements that change: as many as the record says, the first and the last among them.
  const char* Keep(const uint8_t* elements, uint64_t element_count, DecodedRecord* out) const {
    const bool kept = WithUnit(unit_bytes_, [&]<typename Unit>() { return Compact<Unit>(elements, element_count, out); });
    return kept ? nullptr : "its changes are not those that its record counts";
  }

  uint32_t unit_bytes_;
  EncodedSegmentView view_;
  std::unique_ptr<DecodeTables> tables_;
  const SparseKernels* kernels_;
};

}  // namespace

Result<std::unique_ptr<SegmentDecoder>> OpenSparse(const SegmentMap& map, const EncodedSegmentView& view,
                                                   const SparseKernels& kernels) {
  XORBIT_ASSIGN_OR_RETURN(const SegmentTables tables, ParseTables(view.tables, map.unit_bytes()));
  XORBIT_RETURN_IF_ERROR(CheckRecords(view, tables, map));
  return std::unique_ptr<SegmentDecoder>(std::make_unique<SparseDecoder>(map.unit_bytes(), view, tables, kernels));
}

}  // namespace xorbit
