// The sparse codec's inner loops, by CPU level. As in kernels.h, functions carry the target attribute themselves.
#pragma once

#include "base/cpu_level.h"
#include "codec/sparse_kernels.h"

namespace xorbit {

// The fastest of each loop; `level` must be one of AvailableCpuLevels().
const SparseKernels& SparseKernelsOf(CpuLevel level);

// Callable only where AvailableCpuLevels() has the level. See SparseKernels for the contracts.
bool DecodeGroupsAvx2(TileDecode* tile, uint32_t* offsets, uint8_t* xors);
bool DecodeGroupsAvx512(TileDecode* tile, uint32_t* offsets, uint8_t* xors);
void EncodeGroupsAvx512(TileEncode* tile);
void MakeGapsAvx512(const uint32_t* offsets, uint32_t count, GapCode* code);
void WindowGapsAvx512(const uint16_t* positions, uint32_t count, uint8_t* symbols);
void SplitPlanesAvx512(const uint8_t* values, uint32_t unit_bytes, uint32_t count, uint8_t* const* planes);
void WeighStretchAvx512(uint32_t unit_bytes, const ChangeStretch& stretch, ChangeDigest* sum);

}  // namespace xorbit
