#include "codec/sparse_encoder.h"

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "codec/change_digest.h"
#include "codec/sparse_plan.h"
#include "codec/sparse_scan.h"
#include "codec/sparse_tile_encoder.h"

namespace xorbit {
namespace {

// Tiles that one thread encodes into one buffer: some hundred kilobytes.
constexpr uint64_t kPieceChanges = 64 * kMaxTileChanges;

struct Piece {
  std::span<const PlannedTile> tiles;
  uint64_t change_count = 0;
  std::vector<TileRecord> records;  // offsets count from the piece's start
  Buffer body;
  StateDigest change;
  TableSavings savings;
};

std::vector<Piece> CutPieces(std::span<const PlannedTile> tiles) {
  std::vector<Piece> pieces;
  for (size_t begin = 0; begin < tiles.size();) {
    uint64_t changes = 0;
    size_t end = begin;
    while (end < tiles.size() && changes < kPieceChanges) changes += tiles[end++].change_count;
    Piece& piece = pieces.emplace_back();
    piece.tiles = tiles.subspan(begin, end - begin);
    piece.change_count = changes;
    begin = end;
  }
  return pieces;
}

// What all pieces share; constant while they are encoded.
struct SegmentInput {
  const SegmentMap* map;
  std::span<const uint64_t> tensor_keys;
  const ChangeSource* source;
  const WindowScan* scan;
  const SegmentTables* tables;
  const SparseKernels* kernels;
};

class PieceEncoder {
 public:
  PieceEncoder(const SegmentInput& input, Piece* piece)
      : input_(&input),
        piece_(piece),
        unit_bytes_(input.map->unit_bytes()),
        reader_(*input.scan, *input.source),
        weigher_(*input.map, input.tensor_keys, input.kernels->weigh_stretch),
        encoder_(*input.tables, unit_bytes_, *input.kernels) {
    offsets_.resize(kMaxTileChanges);
  }

  Status Run() {
    for (const PlannedTile& planned : piece_->tiles) {
      uint64_t first = 0;
      TileChanges tile;
      XORBIT_RETURN_IF_ERROR(Gather(planned, &first, &tile));
      XORBIT_RETURN_IF_ERROR(AppendTile(first, tile, planned.dense, &weigher_));
    }
    return {};
  }

 private:
  // Collects a tile's changes from the windows that hold them. The window that the last tile ended in is still at hand. Values
  // are copied only if they do not stand end to end already, as they do in the scan's cache.
  Status Gather(const PlannedTile& planned, uint64_t* first, TileChanges* tile) {
    Reserve(planned.change_count);
    uint64_t window_index = planned.window_index;
    uint32_t at = planned.first_change;
    XORBIT_RETURN_IF_ERROR(View(window_index));
    const bool copy_values = view_.values_count - at < planned.change_count;
    const uint8_t* const xors = copy_values ? xors_.data() : view_.xors + size_t{at} * unit_bytes_;
    const uint8_t* olds = nullptr;
    if (view_.olds != nullptr) olds = copy_values ? olds_.data() : view_.olds + size_t{at} * unit_bytes_;
    uint32_t filled = 0;
    while (filled < planned.change_count) {
      XORBIT_RETURN_IF_ERROR(View(window_index));
      const uint32_t taken = std::min(planned.change_count - filled, view_.count - at);
      const uint64_t window_start = window_index * kWindowElements;
      if (filled == 0) *first = window_start + view_.positions[at];
      const uint32_t base = static_cast<uint32_t>(window_start - *first);  // may wrap below zero and back
      for (uint32_t i = 0; i < taken; ++i) offsets_[filled + i] = base + view_.positions[at + i];
      if (copy_values) {
        CopyValues(view_.xors, at, taken, filled, &xors_);
        if (view_.olds != nullptr) CopyValues(view_.olds, at, taken, filled, &olds_);
      }
      filled += taken;
      at = 0;
      if (filled < planned.change_count) window_index = NextChangedWindow(window_index);
    }
    *tile = {filled, offsets_.data(), xors, olds};
    return {};
  }

  // Points view_ at the window.
  Status View(uint64_t window_index) {
    if (has_view_ && view_window_ == window_index) return {};
    XORBIT_RETURN_IF_ERROR(reader_.Read(window_index, &view_));
    assert(view_.count == input_->scan->windows[window_index].change_count);
    view_window_ = window_index;
    has_view_ = true;
    return {};
  }

  void Reserve(uint32_t change_count) {
    if (offsets_.size() < change_count) offsets_.resize(change_count);
    const size_t value_bytes = offsets_.size() * unit_bytes_;
    if (xors_.size() < value_bytes) xors_.resize(value_bytes);
    if (olds_.size() < value_bytes && input_->source->has_values()) olds_.resize(value_bytes);
  }

  void CopyValues(const uint8_t* values, uint32_t at, uint32_t count, uint32_t target_at, Buffer* target) const {
    std::memcpy(target->data() + size_t{target_at} * unit_bytes_, values + size_t{at} * unit_bytes_,
                size_t{count} * unit_bytes_);
  }

  uint64_t NextChangedWindow(uint64_t window_index) const {
    do {
      ++window_index;
    } while (input_->scan->windows[window_index].change_count == 0);
    return window_index;
  }

  // Encodes a tile, or its halves if a digest could not tell old from new and there is more than one change.
  Status AppendTile(uint64_t first, const TileChanges& tile, bool dense, ElementWeigher* weigher) {
    ChangeDigest digest;
    if (tile.olds != nullptr) {
      weigher->Add(first, std::span(tile.offsets, tile.count), tile.olds, tile.xors, &digest);
      if (digest.before == digest.after && tile.count > 1) return AppendHalves(first, tile, dense);
      piece_->change += digest.change();
    }
    const uint64_t offset = piece_->body.size();
    const EncodedTile encoded = encoder_.Append(tile, dense, &piece_->body);
    if (offset == 0) ReserveBody(tile.count);
    piece_->records.push_back({first, offset, digest.before, digest.after, tile.span(), static_cast<uint16_t>(tile.count - 1),
                               static_cast<uint8_t>(encoded.mode), 0});
    if (encoded.mode == TileMode::kSparse) {
      ++piece_->savings.sparse_count;
      piece_->savings.sparse_bytes += encoded.saved_bytes;
    } else if (encoded.mode == TileMode::kDense) {
      ++piece_->savings.dense_count;
      piece_->savings.dense_bytes += encoded.saved_bytes;
    }
    return {};
  }

  // Room for tiles like the first one, which is all there is yet: growing in steps copies everything twice.
  void ReserveBody(uint32_t first_count) {
    const uint64_t expected_bytes = piece_->body.size() * piece_->change_count / first_count;
    piece_->body.reserve(expected_bytes + expected_bytes / 8);
  }

  Status AppendHalves(uint64_t first, const TileChanges& tile, bool dense) {
    const uint32_t half = tile.count / 2;
    std::vector<uint32_t> rest(tile.offsets + half, tile.offsets + tile.count);
    const uint32_t start = rest[0];
    for (uint32_t& offset : rest) offset -= start;
    ElementWeigher weigher(*input_->map, input_->tensor_keys, input_->kernels->weigh_stretch);
    const TileChanges lower{half, tile.offsets, tile.xors, tile.olds};
    const size_t value_at = size_t{half} * unit_bytes_;
    const TileChanges upper{tile.count - half, rest.data(), tile.xors + value_at, tile.olds + value_at};
    XORBIT_RETURN_IF_ERROR(AppendTile(first, lower, dense, &weigher));
    return AppendTile(first + start, upper, dense, &weigher);
  }

  const SegmentInput* input_;
  Piece* piece_;
  uint32_t unit_bytes_;
  WindowReader reader_;
  ElementWeigher weigher_;
  TileEncoder encoder_;
  bool has_view_ = false;
  uint64_t view_window_ = 0;
  WindowView view_;
  std::vector<uint32_t> offsets_;
  Buffer xors_;
  Buffer olds_;
};

TableSavings SavingsOf(const std::vector<Piece>& pieces) {
  TableSavings sum;
  for (const Piece& piece : pieces) sum += piece.savings;
  return sum;
}

Result<std::vector<Piece>> EncodePieces(const SegmentInput& input, std::span<const PlannedTile> tiles, int threads) {
  std::vector<Piece> pieces = CutPieces(tiles);
  XORBIT_RETURN_IF_ERROR(
      ParallelFor(threads, pieces.size(), [&](uint64_t index) { return PieceEncoder(input, &pieces[index]).Run(); }));
  return pieces;
}

EncodedSegment Assemble(std::vector<Piece> pieces, const SegmentTables& tables, const WindowScan& scan,
                        const ChangeSource& source) {
  EncodedSegment segment;
  segment.tables = SerializeTables(tables, source.unit_bytes());
  segment.change_count = scan.change_count;
  segment.has_digests = source.has_values();
  uint64_t body_bytes = 0;
  for (Piece& piece : pieces) {
    for (TileRecord& record : piece.records) {
      record.offset += body_bytes;
      if (record.offset > 0) segment.cuts.push_back(record.offset);
      AppendLe(segment.records, record);
    }
    segment.record_count += piece.records.size();
    segment.change += piece.change;
    body_bytes += piece.body.size();
    segment.body.push_back(std::move(piece.body));
  }
  if (body_bytes > 0) segment.cuts.push_back(body_bytes);
  return segment;
}

}  // namespace

Result<EncodedSegment> EncodeSparse(const SegmentMap& map, std::span<const uint64_t> tensor_keys, const ChangeSource& source,
                                    const EncodeOptions& options, const SparseKernels& kernels) {
  assert(source.unit_bytes() == map.unit_bytes() && source.element_count() == map.element_count());
  XORBIT_ASSIGN_OR_RETURN(const WindowScan scan, ScanWindows(source, options, kernels));
  const std::vector<PlannedTile> tiles = PlanTiles(scan.windows, map.element_count(), map.unit_bytes());
  SegmentTables tables = MakeTables(scan.histograms, map.unit_bytes());
  for (;;) {
    const SegmentInput input{&map, tensor_keys, &source, &scan, &tables, &kernels};
    XORBIT_ASSIGN_OR_RETURN(std::vector<Piece> pieces, EncodePieces(input, tiles, options.threads));
    const TableSavings savings = SavingsOf(pieces);
    const SegmentTables kept = WorthKeeping(tables, savings, map.unit_bytes());
    const bool again = MustEncodeAgain(kept, savings);
    tables = kept;
    if (!again) return Assemble(std::move(pieces), tables, scan, source);
  }
}

}  // namespace xorbit
