// What both kinds of FormulaMemory check and cut.
#pragma once

#include <vector>

#include "backend/cuda/testing/formula.h"
#include "base/status.h"

namespace xorbit::cuda::testing {

// The pieces with `base` added to their addresses, none longer than a MiB, so that whoever fills them has equal work.
Result<std::vector<FormulaPiece>> CutPieces(uint64_t base, uint64_t byte_count, const std::vector<FormulaPiece>& pieces);

}  // namespace xorbit::cuda::testing
