#include "codec/sparse_tile_encoder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/unit.h"

namespace xorbit {
namespace {

// Per gap symbol: its raw bits, and the bytes of its gaps as varints. All gaps of a symbol take as many, because varints grow
// at powers of two.
struct GapInfo {
  uint8_t bit_count;
  uint8_t varint_bytes;
};
constexpr std::array<GapInfo, kNoGapSymbol + 1> kGapInfo = [] {
  std::array<GapInfo, kNoGapSymbol + 1> info{};
  for (uint32_t symbol = 0; symbol < kGapSymbols; ++symbol) {
    const auto width = static_cast<uint32_t>(std::bit_width(GapBaseOf(symbol) | 1));
    info[symbol] = {static_cast<uint8_t>(GapBitCountOf(symbol)), static_cast<uint8_t>((width + 6) / 7)};
  }
  return info;
}();

uint64_t RawBytesOf(const TileChanges& tile, uint32_t unit_bytes) { return (uint64_t{tile.span()} + 1) * unit_bytes; }

struct BitField {
  uint64_t bits;
  uint32_t bit_count;
};

// `low`, then `high`: together at most 64 bits.
BitField Join(const BitField& low, const BitField& high) {
  return {low.bits | high.bits << low.bit_count, low.bit_count + high.bit_count};
}

// Appends bit fields, low bits first. Whole bytes leave the accumulator after each field.
class BitWriter {
 public:
  static constexpr uint32_t kMaxBits = 56;    // of one field: seven bits may be waiting, and not all 64 may leave at once
  static constexpr uint32_t kSpareBytes = 8;  // past the last bit

  explicit BitWriter(uint8_t* target) : begin_(target), at_(target) {}
  void Put(uint64_t bits, uint32_t bit_count) {
    waiting_ |= bits << waiting_count_;
    StoreLe(at_, waiting_);
    waiting_count_ += bit_count;
    at_ += waiting_count_ / 8;
    waiting_ >>= waiting_count_ / 8 * 8;
    waiting_count_ %= 8;
  }
  void Put(const BitField& field) {
    if (field.bit_count <= kMaxBits) return Put(field.bits, field.bit_count);
    Put(field.bits & 0xffffffff, 32);
    Put(field.bits >> 32, field.bit_count - 32);
  }
  // Fills the last 32-bit word with zeros and returns the number of words.
  uint32_t Finish() {
    StoreLe(at_, waiting_);
    return static_cast<uint32_t>((at_ - begin_ + (waiting_count_ > 0 ? 1 : 0) + 3) / 4);
  }

 private:
  uint8_t* begin_;
  uint8_t* at_;
  uint64_t waiting_ = 0;
  uint32_t waiting_count_ = 0;
};

void PadTile(size_t begin, Buffer* out) { out->resize(begin + PaddedTileBytes(out->size() - begin)); }

template <uint32_t kUnitBytes>
void SplitPlanesOf(const uint8_t* values, uint32_t count, std::array<Buffer, kMaxPlanes>* planes) {
  for (uint32_t plane = 0; plane < kUnitBytes; ++plane) {
    uint8_t* target = (*planes)[plane].data();
    for (uint32_t i = 0; i < count; ++i) target[i] = values[i * kUnitBytes + plane];
  }
}

}  // namespace

TileEncoder::TileEncoder(const SegmentTables& tables, uint32_t unit_bytes, const SparseKernels& kernels)
    : unit_bytes_(unit_bytes), kernels_(&kernels) {
  if (tables.has_sparse()) FillCoder(&tables.gaps, tables.planes, &sparse_);
  if (tables.has_dense()) FillCoder(nullptr, tables.dense_planes, &dense_);
  // One size for all tiles: the most changes that are coded at once.
  const size_t row_size = tables.has_dense() ? kWindowElements : kMaxTileChanges;
  for (uint32_t plane = 0; plane < unit_bytes; ++plane) plane_symbols_[plane].resize(row_size);
  if (tables.has_dense()) elements_.resize(row_size * unit_bytes);
  gap_symbols_.resize(kMaxTileChanges);
  gap_bits_.resize(4 * kMaxTileChanges + BitWriter::kSpareBytes);
  words_.resize(row_size * (unit_bytes + 1) + 1);
}

void TileEncoder::FillCoder(const SegmentTable* gaps, const std::array<SegmentTable, kMaxPlanes>& planes, Coder* coder) const {
  coder->present = true;
  if (gaps != nullptr) coder->gaps = MakeEncodeTable(gaps->frequencies);
  for (uint32_t plane = 0; plane < unit_bytes_; ++plane) {
    coder->plane_is_raw[plane] = planes[plane].kind == TableKind::kRaw;
    if (!coder->plane_is_raw[plane]) coder->planes[plane] = MakeEncodeTable(planes[plane].frequencies);
  }
}

EncodedTile TileEncoder::Append(const TileChanges& tile, bool dense, Buffer* out) {
  const size_t begin = out->size();
  const uint64_t raw_bytes = PaddedTileBytes(RawBytesOf(tile, unit_bytes_));
  if (!dense) MakeGaps(tile);
  // A dense tile has so many changes that plain cannot win.
  const uint64_t plain_bytes = dense ? UINT64_MAX : PaddedTileBytes(uint64_t{tile.count} * unit_bytes_ + gap_varint_bytes_);
  const uint64_t uncoded_bytes = std::min(raw_bytes, plain_bytes);
  if (dense ? dense_.present : sparse_.present) {
    if (dense) {
      AppendDense(tile, out);
    } else {
      SplitPlanes(tile.xors, tile.count);
      AppendCoded(sparse_, true, tile.count, out);
    }
    const uint64_t coded_bytes = out->size() - begin;
    if (coded_bytes <= uncoded_bytes) return {dense ? TileMode::kDense : TileMode::kSparse, uncoded_bytes - coded_bytes};
    out->resize(begin);
  }
  const bool raw = raw_bytes <= plain_bytes;
  if (raw) {
    AppendRaw(tile, out);
  } else {
    AppendPlain(tile, out);
  }
  PadTile(begin, out);
  return {raw ? TileMode::kRaw : TileMode::kPlain, 0};
}

void TileEncoder::SplitPlanes(const uint8_t* values, uint32_t count) {
  WithUnit(unit_bytes_, [&]<typename Unit>() { SplitPlanesOf<sizeof(Unit)>(values, count, &plane_symbols_); });
}

void TileEncoder::MakeGaps(const TileChanges& tile) {
  // In locals, because a store of a symbol could be to any member as far as the compiler knows.
  const uint32_t* const offsets = tile.offsets;
  const uint32_t count = tile.count;
  uint8_t* const symbols = gap_symbols_.data();
  uint32_t varint_bytes = 0;
  BitWriter writer(gap_bits_.data());
  const auto make = [&](uint32_t i) {
    const uint32_t gap = offsets[i] - offsets[i - 1] - 1;
    const uint32_t symbol = GapSymbolOf(gap);
    symbols[i] = static_cast<uint8_t>(symbol);
    varint_bytes += kGapInfo[symbol].varint_bytes;
    const uint32_t bit_count = kGapInfo[symbol].bit_count;
    return BitField{gap & ((1U << bit_count) - 1), bit_count};
  };
  symbols[0] = kNoGapSymbol;
  // Four gaps at a time where they fit: only the writer's state is carried from step to step, so fewer steps take less time.
  uint32_t i = 1;
  for (; i + 3 < count; i += 4) {
    const BitField first = make(i);
    const BitField low = Join(first, make(i + 1));
    const BitField third = make(i + 2);
    const BitField high = Join(third, make(i + 3));
    if (low.bit_count + high.bit_count <= BitWriter::kMaxBits) {
      writer.Put(Join(low, high));
    } else {
      writer.Put(low);
      writer.Put(high);
    }
  }
  for (; i < count; ++i) writer.Put(make(i));
  gap_varint_bytes_ = varint_bytes;
  gap_bit_words_ = writer.Finish();
}

void TileEncoder::AppendCoded(const Coder& coder, bool with_gaps, uint32_t count, Buffer* out) {
  TileEncode encode;
  encode.states.fill(kStateFloor);
  if (with_gaps) {
    encode.symbols[0] = gap_symbols_.data();
    encode.tables[0] = &coder.gaps;
    encode.row_count = 1;
  }
  uint32_t raw_plane_count = 0;
  for (uint32_t plane = 0; plane < unit_bytes_; ++plane) {
    if (coder.plane_is_raw[plane]) {
      ++raw_plane_count;
      continue;
    }
    encode.symbols[encode.row_count] = plane_symbols_[plane].data();
    encode.tables[encode.row_count++] = &coder.planes[plane];
  }
  uint16_t* const words_end = words_.data() + words_.size();
  encode.words = words_end;
  encode.group_count = count / kLanes;
  for (uint32_t row = encode.row_count; row-- > 0;) {
    for (uint32_t lane = count % kLanes; lane-- > 0;) {
      const uint8_t symbol = encode.symbols[row][encode.group_count * kLanes + lane];
      EncodeSymbol(*encode.tables[row], symbol, &encode.states[lane], &encode.words);
    }
  }
  kernels_->encode_groups(&encode);

  const size_t word_bytes = PaddedTileBytes(static_cast<uint64_t>(words_end - encode.words) * 2);
  const size_t bit_words = with_gaps ? gap_bit_words_ : 0;
  const size_t plane_bytes = PaddedTileBytes(uint64_t{raw_plane_count} * count);
  const size_t state_bytes = size_t{4} * std::min(count, kLanes);
  const size_t begin = out->size();
  out->resize(begin + state_bytes + plane_bytes + word_bytes + 4 * bit_words);
  uint8_t* target = out->data() + begin;
  std::memcpy(target, encode.states.data(), state_bytes);
  target += state_bytes;
  uint8_t* plane_target = target;
  for (uint32_t plane = 0; plane < unit_bytes_; ++plane) {
    if (!coder.plane_is_raw[plane]) continue;
    std::memcpy(plane_target, plane_symbols_[plane].data(), count);
    plane_target += count;
  }
  target += plane_bytes;
  std::memcpy(target, encode.words, static_cast<size_t>(words_end - encode.words) * 2);
  uint8_t* const end = out->data() + out->size();
  for (size_t i = 0; i < bit_words; ++i) std::memcpy(end - 4 * (i + 1), gap_bits_.data() + 4 * i, 4);
}

void TileEncoder::AppendDense(const TileChanges& tile, Buffer* out) {
  const uint32_t element_count = tile.span() + 1;
  std::fill_n(elements_.begin(), size_t{element_count} * unit_bytes_, uint8_t{0});
  for (uint32_t i = 0; i < tile.count; ++i) {
    std::memcpy(elements_.data() + size_t{tile.offsets[i]} * unit_bytes_, tile.xors + size_t{i} * unit_bytes_, unit_bytes_);
  }
  SplitPlanes(elements_.data(), element_count);
  AppendCoded(dense_, false, element_count, out);
}

void TileEncoder::AppendRaw(const TileChanges& tile, Buffer* out) const {
  const size_t begin = out->size();
  out->resize(begin + RawBytesOf(tile, unit_bytes_));
  for (uint32_t i = 0; i < tile.count; ++i) {
    uint8_t* target = out->data() + begin + size_t{tile.offsets[i]} * unit_bytes_;
    std::memcpy(target, tile.xors + size_t{i} * unit_bytes_, unit_bytes_);
  }
}

void TileEncoder::AppendPlain(const TileChanges& tile, Buffer* out) const {
  for (uint32_t i = 0; i < tile.count; ++i) {
    if (i > 0) AppendVarint(*out, tile.offsets[i] - tile.offsets[i - 1] - 1);
    AppendBytes(*out, {tile.xors + size_t{i} * unit_bytes_, unit_bytes_});
  }
}

}  // namespace xorbit
