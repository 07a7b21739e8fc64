// Formula memory on the host: for every build.
#pragma once

#include "backend/cuda/testing/formula_memory.h"

namespace xorbit {

// The contract of MakeFormulaMemory without a device.
Result<std::unique_ptr<FormulaMemory>> MakeHostFormulaMemory(uint64_t byte_count, const ChangeFormula& formula,
                                                             const std::vector<FormulaPiece>& pieces);

}  // namespace xorbit
