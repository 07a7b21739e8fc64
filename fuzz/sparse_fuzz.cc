// The sparse codec's reader at every CPU level, and its writer: damaged segments are refused or decoded alike by all levels,
// what is accepted keeps the decoder's promises and survives another round trip, and so do changes made up from the input. The
// damaged segments are bytes as they come, or encoded from changes first.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

#include "backend/cpu/cpu_codec.h"
#include "base/bytes.h"
#include "base/unit.h"
#include "change/list_source.h"
#include "codec/sparse_format.h"
#include "tensor/layout.h"

namespace xorbit {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

SegmentMap MapOf(uint32_t unit_bytes, uint64_t element_count) {
  const Dtype dtype = unit_bytes == 1   ? Dtype::kU8
                      : unit_bytes == 2 ? Dtype::kU16
                      : unit_bytes == 4 ? Dtype::kU32
                                        : Dtype::kU64;
  const Layout layout = Layout::Make({TensorSpec{.name = "w", .dtype = dtype, .shape = {element_count}}}).value();
  return SegmentMap::Make(layout, unit_bytes, 0, {WholeTensor(layout, 0)}).value();
}

std::optional<std::vector<ElementChange>> Decode(const Codec& codec, const SegmentMap& map, const EncodedSegmentView& view) {
  const auto decoder = codec.Open(map, view);
  if (!decoder.ok()) return std::nullopt;
  std::vector<ElementChange> changes;
  DecodedRecord record;
  for (uint64_t i = 0; i < (*decoder)->record_count(); ++i) {
    if (!(*decoder)->Decode(i, &record).ok()) return std::nullopt;
    const RecordInfo info = (*decoder)->info(i);
    Require(record.count == info.change_count && info.first + record.offsets[0] == info.first);
    Require(info.first + record.offsets[record.count - 1] == info.last && info.last < map.element_count());
    for (uint64_t c = 0; c < record.count; ++c) {
      const uint64_t xor_bits = UnitBits(record.xors.data() + c * map.unit_bytes(), map.unit_bytes());
      const ElementChange change{info.first + record.offsets[c], 0, xor_bits};
      Require(change.xor_bits != 0 && (changes.empty() || changes.back().element < change.element));
      changes.push_back(change);
    }
  }
  Require(changes.size() == view.change_count);
  return changes;
}

std::optional<std::vector<ElementChange>> DecodeByAll(const SegmentMap& map, const EncodedSegmentView& view) {
  const auto expected = Decode(*CpuCodec(CodecId::kSparse, CpuLevel::kPortable), map, view);
  for (const CpuLevel level : AvailableCpuLevels()) Require(Decode(*CpuCodec(CodecId::kSparse, level), map, view) == expected);
  return expected;
}

void RoundTrip(const SegmentMap& map, const std::vector<ElementChange>& changes) {
  const ListSource source(map.unit_bytes(), map.element_count(), changes, false);
  const std::vector<uint64_t> keys = {1};
  const EncodedSegment encoded = CpuCodec(CodecId::kSparse, BestCpuLevel())->Encode(map, keys, source, {}).value();
  Buffer body;
  for (const Buffer& piece : encoded.body) AppendBytes(body, piece);
  const uint64_t byte_count = encoded.tables.size() + encoded.records.size() + body.size();
  Require(byte_count <= map.byte_count() + map.byte_count() / 100 + (64 << 10));
  const EncodedSegmentView view{false, encoded.record_count, encoded.change_count, encoded.tables, encoded.records, {}, body};
  Require(DecodeByAll(map, view) == changes);
}

// Input: unit (2 bits), digests (1 bit), u32 elements, u16 records, u32 changes, u16 table bytes; then tables, records, body.
void FuzzReader(uint8_t control, ByteReader reader) {
  const uint32_t unit_bytes = 1U << control % 4;
  const auto elements = reader.ReadLe<uint32_t>("elements");
  const auto records = reader.ReadLe<uint16_t>("records");
  const auto changes = reader.ReadLe<uint32_t>("changes");
  const auto table_bytes = reader.ReadLe<uint16_t>("table bytes");
  if (!elements.ok() || !records.ok() || !changes.ok() || !table_bytes.ok()) return;
  const auto tables = reader.ReadBytes(std::min<uint64_t>(*table_bytes, reader.remaining()), "tables").value();
  const auto record_bytes =
      reader.ReadBytes(std::min<uint64_t>(*records * sizeof(TileRecord), reader.remaining()), "records").value();
  const auto body = reader.ReadBytes(reader.remaining(), "body").value();
  const SegmentMap map = MapOf(unit_bytes, 1 + *elements % (1U << 24));
  const auto decoded = DecodeByAll(map, {(control & 4) != 0, *records, *changes, tables, record_bytes, {}, body});
  if (decoded) RoundTrip(map, *decoded);
}

// Input: repeated (gap byte, value byte): a gap of 255 jumps by 2^16, a value counts in every second plane.
std::vector<ElementChange> ReadChanges(uint8_t control, ByteReader* reader) {
  const uint32_t unit_bytes = 1U << control % 4;
  std::vector<ElementChange> changes;
  uint64_t element = 0;
  while (reader->remaining() >= 2) {
    const uint8_t gap = reader->ReadLe<uint8_t>("gap").value();
    const uint64_t value = reader->ReadLe<uint8_t>("value").value() | uint64_t{1};
    element += gap == 255 ? 65536 : gap;
    const uint64_t mask = unit_bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * unit_bytes) - 1;
    // Several changes for one pair, or inputs would have to be long to fill a tile.
    for (uint64_t i = 0; i < (control >> 4 & 7) * 16U + 1; ++i) {
      changes.push_back({element, 0, (value * 0x0001000100010001) & mask});
      element += 1 + gap / 16 * (i % 3);
    }
  }
  return changes;
}

SegmentMap MapOf(uint8_t control, const std::vector<ElementChange>& changes) {
  return MapOf(1U << control % 4, changes.empty() ? 1 : changes.back().element + 1);
}

void FuzzWriter(uint8_t control, ByteReader reader) {
  const std::vector<ElementChange> changes = ReadChanges(control, &reader);
  RoundTrip(MapOf(control, changes), changes);
}

// One step of damage: 2 bits of section, 3 of what to do, a position (scaled to the section), a byte to do it with. The values
// are those at which readers err: limits, neighbours, what stands elsewhere.
void Damage(ByteReader* reader, Buffer* tables, Buffer* records, Buffer* body, uint64_t* counts) {
  const uint8_t control = reader->ReadLe<uint8_t>("control").value();
  const uint16_t place = reader->ReadLe<uint16_t>("place").value();
  const uint8_t value = reader->ReadLe<uint8_t>("value").value();
  Buffer* const sections[] = {tables, records, body};
  if (control % 4 == 3) {
    counts[place % 2] += value < 128 ? value : value - 256ULL;
    return;
  }
  Buffer& section = *sections[control % 4];
  if (section.empty()) return;
  const size_t at = place % section.size();
  switch (control >> 2 & 7) {
    case 0:
      section[at] ^= value;
      break;
    case 1:
      section[at] = static_cast<uint8_t>(section[at] + value);
      break;
    case 2:
      std::fill(section.begin() + static_cast<ptrdiff_t>(at), section.end(), value);
      break;
    case 3:
      section.resize(at);
      break;
    case 4:
      section.insert(section.begin() + static_cast<ptrdiff_t>(at), value);
      break;
    case 5:  // a run of bytes from elsewhere in the section
      std::copy_n(section.begin() + static_cast<ptrdiff_t>(section.size() - at - 1), std::min<size_t>(value, at),
                  section.begin());
      break;
    default: {  // a whole field
      const size_t bytes = std::min<size_t>(size_t{1} << (control >> 6), section.size() - at);
      std::fill_n(section.begin() + static_cast<ptrdiff_t>(at - at % bytes), bytes, value % 2 == 0 ? 0 : 0xff);
    }
  }
}

// Input: how many steps of damage, these, then changes. Encoded with digests, damaged, and read by every level: the way into
// the reader that no search for valid tables would find.
void FuzzDamaged(uint8_t control, ByteReader reader) {
  const auto step_count = reader.ReadLe<uint8_t>("steps");
  if (!step_count.ok()) return;
  const auto steps = reader.ReadBytes(std::min<uint64_t>(4 * (*step_count % 8), reader.remaining() / 4 * 4), "steps").value();
  std::vector<ElementChange> changes = ReadChanges(control, &reader);
  const SegmentMap map = MapOf(control, changes);
  const bool has_values = (control & 4) != 0;
  for (ElementChange& change : changes) change.old_bits = has_values ? change.element % 251 : 0;
  const ListSource source(map.unit_bytes(), map.element_count(), changes, has_values);
  const EncodedSegment encoded = CpuCodec(CodecId::kSparse, BestCpuLevel())->Encode(map, {{1}}, source, {}).value();
  Buffer tables = encoded.tables;
  Buffer records = encoded.records;
  Buffer body;
  for (const Buffer& piece : encoded.body) AppendBytes(body, piece);
  uint64_t counts[] = {encoded.record_count, encoded.change_count};
  ByteReader damage(steps);
  while (damage.remaining() > 0) Damage(&damage, &tables, &records, &body, counts);
  const auto decoded = DecodeByAll(map, {has_values, counts[0], counts[1], tables, records, {}, body});
  for (ElementChange& change : changes) change.old_bits = 0;
  if (steps.empty()) Require(decoded == changes);
  if (decoded) RoundTrip(map, *decoded);
}

}  // namespace
}  // namespace xorbit

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1 || size > (1 << 16)) return 0;
  const xorbit::ByteReader reader(xorbit::ConstBytes(data + 1, size - 1));
  if ((data[0] & 0x88) == 0x88) {
    xorbit::FuzzDamaged(data[0], reader);
  } else if ((data[0] & 8) != 0) {
    xorbit::FuzzWriter(data[0], reader);
  } else {
    xorbit::FuzzReader(data[0], reader);
  }
  return 0;
}
