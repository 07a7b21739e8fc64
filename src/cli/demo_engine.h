// How the demo's samplers lay out what they serve: as inference engines do with checkpoints of the common names.
#pragma once

#include "tensor/live_map.h"

namespace xorbit {

// The live map of one tensor-parallel rank, with q, k and v fused and experts stacked; the canonical one where the model's
// tensors have other names or cannot be cut so.
LiveMap DemoEngineMap(const Layout& layout, uint32_t rank, uint32_t rank_count);

}  // namespace xorbit
