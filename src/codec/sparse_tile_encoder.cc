#include "codec/sparse_tile_encoder.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace xorbit {
namespace {

uint64_t RawBytesOf(const TileChanges& tile, uint32_t unit_bytes) { return (uint64_t{tile.span()} + 1) * unit_bytes; }

void PadTile(size_t begin, Buffer* out) { out->resize(begin + PaddedTileBytes(out->size() - begin)); }

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
  gap_bits_.resize(kGapBitsBytes);
  gaps_ = {gap_symbols_.data(), gap_bits_.data()};
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
  if (!dense) kernels_->make_gaps(tile.offsets, tile.count, &gaps_);
  // A dense tile has so many changes that plain cannot win.
  const uint64_t plain_bytes = dense ? UINT64_MAX : PaddedTileBytes(uint64_t{tile.count} * unit_bytes_ + gaps_.varint_bytes);
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
  std::array<uint8_t*, kMaxPlanes> planes{};
  for (uint32_t plane = 0; plane < unit_bytes_; ++plane) planes[plane] = plane_symbols_[plane].data();
  kernels_->split_planes(values, unit_bytes_, count, planes.data());
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
  const size_t bit_words = with_gaps ? gaps_.bit_words : 0;
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
