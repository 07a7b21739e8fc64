#include "backend/cuda/testing/host_formula_memory.h"

#include <cstring>
#include <utility>

#include "backend/cuda/testing/formula_pieces.h"

namespace xorbit {
namespace {

using cuda::testing::Cell;
using cuda::testing::kCellBytes;

class HostFormulaMemory final : public FormulaMemory {
 public:
  HostFormulaMemory(uint64_t byte_count, const ChangeFormula& formula) : formula_(formula), bytes_(byte_count) {}

  Status Describe(const std::vector<FormulaPiece>& pieces) {
    XORBIT_ASSIGN_OR_RETURN(pieces_, cuda::testing::CutPieces(0, bytes_.size(), pieces));
    return {};
  }

  MutableBytes bytes() const override { return {const_cast<uint8_t*>(bytes_.data()), bytes_.size()}; }  // NOLINT
  Status Fill(bool changed) override {
    ForEachCell(changed, [&](uint64_t at, const Cell& cell) { std::memcpy(bytes_.data() + at, cell.words, kCellBytes); });
    return {};
  }
  Result<uint64_t> CountWrong(bool changed) override {
    uint64_t wrong = 0;
    ForEachCell(changed, [&](uint64_t at, const Cell& cell) {
      const auto* expected = reinterpret_cast<const uint8_t*>(cell.words);
      for (uint64_t i = 0; i < kCellBytes; ++i) wrong += bytes_[at + i] != expected[i] ? 1 : 0;
    });
    return wrong;
  }

 private:
  template <typename Visit>
  void ForEachCell(bool changed, Visit&& visit) const {
    for (const FormulaPiece& piece : pieces_) {
      for (uint64_t at = 0; at < piece.byte_count; at += kCellBytes) {
        const uint64_t number = (piece.first_byte + at) / kCellBytes;
        Cell cell = cuda::testing::OldCell(formula_, number);
        const Cell change = changed ? cuda::testing::ChangeOfCell(formula_, number) : Cell{};
        for (int i = 0; i < 4; ++i) cell.words[i] ^= change.words[i];
        visit(piece.address + at, cell);
      }
    }
  }

  ChangeFormula formula_;
  Buffer bytes_;
  std::vector<FormulaPiece> pieces_;
};

}  // namespace

Result<std::unique_ptr<FormulaMemory>> MakeHostFormulaMemory(uint64_t byte_count, const ChangeFormula& formula,
                                                             const std::vector<FormulaPiece>& pieces) {
  auto memory = std::make_unique<HostFormulaMemory>(byte_count, formula);
  XORBIT_RETURN_IF_ERROR(memory->Describe(pieces));
  return std::unique_ptr<FormulaMemory>(std::move(memory));
}

}  // namespace xorbit
