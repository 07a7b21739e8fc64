// What GPU checks and benchmarks need beside the product's kernels: data by formula, its verification, and the yardsticks that
// rates are compared with.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/testing/formula.h"
#include "base/status.h"

namespace xorbit::cuda::testing {

// Old bytes, or new ones if `changed`.
Status LaunchFill(const FormulaPiece* pieces_dev, uint64_t piece_count, const ChangeFormula& formula, bool changed,
                  cudaStream_t stream);

struct Mismatches {
  uint64_t byte_count;
  uint64_t first_byte;  // the least one of the formula; caller sets it to ~0 before
};
Status LaunchVerify(const FormulaPiece* pieces_dev, uint64_t piece_count, const ChangeFormula& formula, bool changed,
                    Mismatches* mismatches_dev, cudaStream_t stream);

// Yardsticks over 16-byte aligned memory, multiples of 16 bytes.
Status LaunchRead(const uint8_t* from_dev, uint64_t byte_count, uint64_t* sink_dev, cudaStream_t stream);
Status LaunchCopy(uint8_t* to_dev, const uint8_t* from_dev, uint64_t byte_count, cudaStream_t stream);
Status LaunchDenseXor(uint8_t* live_dev, const uint8_t* mask_dev, uint64_t byte_count, cudaStream_t stream);
// Reads and writes every byte in place: the bound of an apply that streams everything.
Status LaunchStream(uint8_t* live_dev, uint64_t byte_count, uint32_t bits, cudaStream_t stream);

}  // namespace xorbit::cuda::testing
