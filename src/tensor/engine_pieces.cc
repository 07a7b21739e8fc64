#include "tensor/engine_pieces.h"

#include <utility>
#include <vector>

namespace xorbit {
namespace {

AxisBox Scaled(AxisBox box, uint64_t canonical_scale, uint64_t live_scale) {
  box.canonical *= canonical_scale;
  box.live *= live_scale;
  for (LiveDigit& digit : box.digits) {
    digit = {digit.count, digit.canonical_stride * canonical_scale, digit.live_stride * live_scale};
  }
  return box;
}

}  // namespace

Status PieceEmitter::Emit(const EngineItem& item, const EngineRegion& region) {
  const EngineRule& rule = *item.rule;
  std::vector<AxisRun> rows = item.row_slice.runs;
  if (rule.interleave_rows != 0) {
    rows = InterleaveRows(rows, rule.interleave_rows, rule.slot, region.slot_rows.size());
  } else {
    for (AxisRun& run : rows) run.live += region.rows_before(rule.slot);
  }
  std::vector<AxisRun> columns = item.column_slice.runs;
  uint64_t row_pitch = region.columns;
  uint64_t column_pitch = 1;
  if (rule.swizzle) {
    rows = SwizzleRows(rows, region.padded_columns());
    columns = SwizzleColumns(columns);
    row_pitch = 1;
  } else if (rule.transpose) {
    row_pitch = 1;
    column_pitch = region.rows();
  }
  const std::vector<AxisBox> column_boxes = FindBoxes(columns);
  for (const AxisBox& row_box : FindBoxes(rows)) {
    for (const AxisBox& column_box : column_boxes) {
      XORBIT_RETURN_IF_ERROR(
          EmitBox(item, region, Scaled(row_box, item.columns, row_pitch), Scaled(column_box, 1, column_pitch)));
    }
  }
  return {};
}

Status PieceEmitter::EmitBox(const EngineItem& item, const EngineRegion& region, AxisBox rows, const AxisBox& columns) {
  std::vector<LiveDigit> digits = rows.digits;
  digits.insert(digits.end(), columns.digits.begin(), columns.digits.end());
  const auto shape = MakePieceClass(item.granule_bits, digits);
  if (shape.ok()) {
    EmitCopies(item, region,
               {.tensor_index = item.tensor_index,
                .class_index = classes_.Intern(*shape),
                .region_index = region.index,
                .counted = rows.counted && columns.counted,
                .origin = rows.canonical + columns.canonical,
                .live_origin = rows.live + columns.live});
    return {};
  }
  if (rows.digits.empty()) return RefuseTensor(layout_.tensors()[item.tensor_index], shape.status().message());
  // Rows that repeat at steps which do not nest with the rest (groups that take turns and straddle tiles): each by itself.
  const LiveDigit outer = rows.digits.front();
  rows.digits.erase(rows.digits.begin());
  for (uint64_t i = 0; i < outer.count; ++i) {
    XORBIT_RETURN_IF_ERROR(EmitBox(item, region, rows, columns));
    rows.canonical += outer.canonical_stride;
    rows.live += outer.live_stride;
  }
  return {};
}

// The same piece in the block of each expert.
void PieceEmitter::EmitCopies(const EngineItem& item, const EngineRegion& region, const Piece& of_first) {
  for (const ExpertPlace& place : item.places) {
    Piece piece = of_first;
    piece.origin += place.canonical_expert * item.rows * item.columns;
    piece.live_origin += place.block * region.block_granules();
    piece.counted = of_first.counted && item.counted && place.counted;
    if (item.rule->placement == Placement::kShadow) {
      spec_->shadows.push_back({.cast = item.rule->cast, .piece = piece});
    } else {
      spec_->pieces.push_back(piece);
    }
  }
}

}  // namespace xorbit
