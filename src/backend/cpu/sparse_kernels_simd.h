// The sparse codec's symbol loops, by CPU level, one file each. As in kernels.h, functions carry the target attribute
// themselves.
#pragma once

#include "codec/sparse_kernels.h"

namespace xorbit {

// Callable only where AvailableCpuLevels() has the level. See DecodeGroups and EncodeGroups for the contracts.
bool DecodeGroupsAvx2(TileDecode* tile, uint32_t* offsets, uint8_t* xors);
bool DecodeGroupsAvx512(TileDecode* tile, uint32_t* offsets, uint8_t* xors);
void EncodeGroupsAvx512(TileEncode* tile);

}  // namespace xorbit
