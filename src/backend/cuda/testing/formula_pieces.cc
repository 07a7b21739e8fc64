#include "backend/cuda/testing/formula_pieces.h"

#include <algorithm>

namespace xorbit::cuda::testing {

Result<std::vector<FormulaPiece>> CutPieces(uint64_t base, uint64_t byte_count, const std::vector<FormulaPiece>& pieces) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 20;
  std::vector<FormulaPiece> cut;
  for (const FormulaPiece& piece : pieces) {
    if (piece.address > byte_count || piece.byte_count > byte_count - piece.address) {
      return UsageError("a piece of the formula lies outside its memory");
    }
    if (((piece.address | piece.byte_count | piece.first_byte) % kCellBytes) != 0) {
      return UsageError("the model is cut within 16 bytes: choose numbers of ranks that divide its matrices");
    }
    for (uint64_t at = 0; at < piece.byte_count; at += kMostBytes) {
      cut.push_back({base + piece.address + at, std::min(kMostBytes, piece.byte_count - at), piece.first_byte + at});
    }
  }
  return cut;
}

}  // namespace xorbit::cuda::testing
