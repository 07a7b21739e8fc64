#include "backend/cpu/update_form.h"

#include <vector>

namespace xorbit {

double HeldShare(const Layout& layout, const LiveMap& map) {
  if (layout.total_bytes() == 0) return 0;
  std::vector<double> granules;  // by class
  for (const PieceClass& shape : map.classes()) granules.push_back(static_cast<double>(shape.granule_count()));
  double bits = 0;
  for (const Piece& piece : map.pieces()) bits += granules[piece.class_index] * map.granule_bits(piece.tensor_index);
  for (const ShadowBinding& shadow : map.shadows()) {
    bits += granules[shadow.piece.class_index] * LiveBitsOf(shadow.cast, map.class_of(shadow.piece).granule_bits);
  }
  for (const uint32_t index : map.kept_tensors()) bits += 8 * static_cast<double>(layout.tensors()[index].byte_count);
  return bits / (8 * static_cast<double>(layout.total_bytes()));
}

uint64_t ExpectedLogBytes(std::span<const PayloadView> payloads, double held_share) {
  double bytes = 0;
  for (const PayloadView& payload : payloads) {
    for (const PayloadSegment& segment : payload.segments) {
      bytes += static_cast<double>(segment.view.change_count) * (sizeof(uint32_t) + segment.map.unit_bytes());
    }
  }
  bytes *= held_share;
  return bytes < static_cast<double>(UINT64_MAX / 2) ? static_cast<uint64_t>(bytes) : UINT64_MAX / 2;
}

std::optional<TouchLogKind> ChooseLog(const PrepareOptions& options, uint64_t expected_log_bytes) {
  if (options.undo_memory != nullptr) return TouchLogKind::kLastingUndo;
  if (options.keep_undo_log) return TouchLogKind::kUndo;
  if (options.localise_budget_bytes > 0 && expected_log_bytes <= options.localise_budget_bytes) return TouchLogKind::kXors;
  return std::nullopt;
}

}  // namespace xorbit
