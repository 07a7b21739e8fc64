// Memory whose bytes follow a formula, on the host or on a device: what the processes of `xorbit bench --ranks` hold of a model
// that no file ever held. Filled and compared where it lies.
#pragma once

#include <memory>
#include <vector>

#include "backend/cuda/testing/formula.h"
#include "base/bytes.h"
#include "base/status.h"

namespace xorbit {

using cuda::testing::ChangeFormula;
using cuda::testing::FormulaPiece;

// One thread at a time.
class FormulaMemory {
 public:
  FormulaMemory() = default;
  FormulaMemory(const FormulaMemory&) = delete;
  FormulaMemory& operator=(const FormulaMemory&) = delete;
  virtual ~FormulaMemory() = default;

  // On a device: its address there.
  virtual MutableBytes bytes() const = 0;
  // Puts the formula's old bytes, or its new ones, into all pieces; bytes between them stay zero.
  virtual Status Fill(bool changed) = 0;
  // How many bytes of all pieces are not what Fill would put there.
  virtual Result<uint64_t> CountWrong(bool changed) = 0;
};

// Addresses of pieces count from the memory's first byte; pieces of any length are cut as the work needs it. `device`: a
// device's number, or -1 for host memory. kUnsupported for a device in a build without CUDA; kUsage for pieces that do not fit
// the memory or cut a cell.
Result<std::unique_ptr<FormulaMemory>> MakeFormulaMemory(int device, uint64_t byte_count, const ChangeFormula& formula,
                                                         const std::vector<FormulaPiece>& pieces);

// The devices of this machine. Calls CUDA, so no process that is forked off after it can.
Result<int> CountDevices();

}  // namespace xorbit
