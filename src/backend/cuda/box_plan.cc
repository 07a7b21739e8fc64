#include "backend/cuda/box_plan.h"

#include <algorithm>
#include <bit>

#include "backend/cuda/live_place.h"

namespace xorbit::cuda {
namespace {

constexpr uint32_t kMaxRowedSpan = 1U << 30;  // of a tile: positions in rows stay below 2^31

// How a run goes on as rows: where the next one is, and how many follow it.
struct Rows {
  uint64_t period = 0;         // segment elements
  uint64_t live_stride = 0;    // elements
  uint64_t tensor_stride = 0;  // elements
  uint64_t more = 0;
};

// The last digit but one of a part or piece, at the row that holds an element.
struct RowDigit {
  uint64_t stride = 0;  // in the tensor; 0: it has but one row
  uint64_t live_stride = 0;
  uint64_t more = 0;  // rows that follow
};

RowDigit RowDigitOf(const UpdateOnDevice& update, const LivePart& part, uint64_t element) {
  if (part.digit_count == 1) return {};
  const Digit* digits = update.digits + part.digit_begin;
  const Digit& rows = digits[part.digit_count - 2];
  const uint64_t row = (element - part.first) / digits[part.digit_count - 1].count % rows.count;
  return {rows.stride, 0, rows.count - 1 - row};
}

RowDigit RowDigitOf(const PieceClass& shape, const Piece& piece, uint64_t granule) {
  if (shape.digit_count == 1) return {};
  uint64_t rest = granule - piece.origin;
  uint64_t row = 0;
  for (uint32_t i = 0; i + 1 < shape.digit_count; ++i) {
    row = rest / shape.digits[i].canonical_stride;
    rest -= row * shape.digits[i].canonical_stride;
  }
  const LiveDigit& rows = shape.digits[shape.digit_count - 2];
  return {rows.canonical_stride, rows.live_stride, rows.count - 1 - row};
}

// Rows as far as part and piece both say so; `run` is the whole intersection of a row of each.
Rows RowsOf(const UpdateOnDevice& update, const SegmentOnDevice& segment, const CopyRun& run) {
  const LivePart& part = segment.parts[run.hint.part_index];
  const Piece& piece = update.pieces[run.hint.piece_index];
  const PieceClass& shape = update.classes[piece.class_index];
  const uint64_t granule = run.tensor_byte / segment.unit_bytes;
  const RowDigit of_part = RowDigitOf(update, part, run.first);
  const RowDigit of_piece = RowDigitOf(shape, piece, granule);
  if (of_part.stride != 0 && of_piece.stride != 0) {
    if (of_part.stride != of_piece.stride) return {};
    return {update.digits[part.digit_begin + part.digit_count - 1].count, of_piece.live_stride, of_piece.stride,
            std::min(of_part.more, of_piece.more)};
  }
  if (of_piece.stride != 0) {  // and the part goes on without holes
    if (run.count != shape.run_length()) return {};
    const uint64_t left = (&part)[1].first - (run.first + run.count);
    return {of_piece.stride, of_piece.live_stride, of_piece.stride, std::min(of_piece.more, left / of_piece.stride)};
  }
  if (of_part.stride != 0) {  // and so does the piece
    const uint64_t row_length = update.digits[part.digit_begin + part.digit_count - 1].count;
    if (run.count != row_length) return {};
    const uint64_t left = piece.origin + shape.run_length() - (granule + run.count);
    return {row_length, of_part.stride, of_part.stride, std::min(of_part.more, left / of_part.stride)};
  }
  return {};
}

// Whether nothing but `run` is there from its first element to the next row.
bool IsAloneInRow(const UpdateOnDevice& update, const SegmentOnDevice& segment, const CopyRun& run, uint64_t period) {
  const uint64_t next_row = run.first + period;
  for (uint64_t at = run.first + run.count; at < next_row;) {
    const CopyRun gap = FindRun(&update, &segment, at, 0, run.hint);
    if (gap.live_address != 0) return false;
    at = gap.first + gap.count;
  }
  return true;
}

// magic and shift of x / divisor, exact for x < 2^31 (Granlund and Montgomery: "Division by invariant integers using
// multiplication", 1994).
void SetDivisor(uint32_t divisor, LiveBox* box) {
  const auto bits = static_cast<uint32_t>(std::bit_width(divisor - 1));  // ceil(log2)
  box->shift = bits == 0 ? 0 : bits - 1;
  box->magic = static_cast<uint32_t>(((uint64_t{1} << (32 + box->shift)) + divisor - 1) / divisor);
}

bool IsRagged(const UpdateOnDevice& update, const LiveBox& box, uint32_t region_index, uint64_t live_bytes) {
  const RegionBounds& region = update.regions[region_index];
  return box.address / 4 * 4 < region.begin || (box.address + live_bytes + 3) / 4 * 4 > region.end;
}

struct FoundBox {
  LiveBox box;
  bool fits;  // warps may use it
};

// The box that holds `element` of the segment; it may begin before it. One row where rows are not regular.
FoundBox FindBox(const UpdateOnDevice& update, const SegmentOnDevice& segment, uint64_t element) {
  const CopyRun run = FindRun(&update, &segment, element, 0, {0, 0});
  const uint64_t unit_bytes = segment.unit_bytes;
  LiveBox box{};
  box.first = run.first;
  box.end = run.first + run.count;
  box.address = run.live_address;
  box.tensor_byte = run.tensor_byte;
  box.tensor_key = run.tensor_key;
  if (segment.parts[run.hint.part_index].is_plain == 0) return {box, false};
  if (run.live_address == 0) return {box, true};
  uint64_t live_bytes = run.count * unit_bytes;
  const Rows rows = RowsOf(update, segment, run);
  const bool is_rowed = rows.more > 0 && rows.period >= 2 && rows.period <= kMaxBoxPeriod;
  if (is_rowed && IsAloneInRow(update, segment, run, rows.period)) {
    box.period = static_cast<uint32_t>(rows.period);
    box.length = static_cast<uint32_t>(run.count);
    box.end += rows.more * rows.period;
    box.live_stride = rows.live_stride * unit_bytes;
    box.tensor_stride = rows.tensor_stride * unit_bytes;
    SetDivisor(box.period, &box);
    live_bytes += rows.more * box.live_stride;
  }
  return {box, box.address % unit_bytes == 0 && !IsRagged(update, box, run.region_index, live_bytes)};
}

}  // namespace

std::vector<LiveBox> PlanBoxes(const UpdateOnDevice& update, const SegmentOnDevice& segment, ConstBytes records,
                               std::vector<TileStart>* starts) {
  std::vector<LiveBox> boxes;
  for (TileStart& start : *starts) start.box_index = kNoBox;
  for (size_t i = 0; i < starts->size(); ++i) {
    const auto record = LoadLe<TileRecord>(records.data() + i * sizeof(TileRecord));
    const uint64_t end = record.first + record.span + 1;
    const bool goes_on = !boxes.empty() && record.first < boxes.back().end;
    const size_t known = boxes.size();
    const size_t first_box = goes_on ? known - 1 : known;
    uint64_t at = goes_on ? boxes.back().end : record.first;
    bool fits = record.span < kMaxRowedSpan;
    while (fits && at < end) {
      const FoundBox found = FindBox(update, segment, at);
      fits = found.fits && boxes.size() - first_box < kMaxBoxesPerTile;
      boxes.push_back(found.box);
      at = found.box.end;
    }
    if (fits) {
      (*starts)[i].box_index = static_cast<uint32_t>(first_box);
    } else {
      boxes.resize(known);
    }
  }
  return boxes;
}

}  // namespace xorbit::cuda
