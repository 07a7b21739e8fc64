// What must hold of live maps before anything is written through them. Run once, when an engine attaches.
#pragma once

#include <span>

#include "base/bytes.h"
#include "tensor/live_map.h"

namespace xorbit {

// Success if every live bit has at most one writer: one granule of one piece, or of one shadow. kRefused otherwise, naming both
// tensors, the region and the place. Memory and time are bounded as for ProveCoverage of ownership.h; what would need more is
// kUnsupported.
Status ProveSingleWriter(const Layout& layout, const LiveMap& map);

// Success if the ranks of a cohort together count every canonical element exactly once: those of pieces and shadows that are
// `counted`, of aliases through the tensor that they name, of kept copies. Frozen tensors may be left out altogether, and so
// may the presence groups that every rank declares absent; ranks must agree on these. kRefused otherwise, naming tensor and
// element. The maps must be of `layout`.
Status ProveCohortCoverage(const Layout& layout, std::span<const LiveMap* const> ranks);

// Success if `memory` has one stretch for every region, of its size, and no two share a byte. kRefused otherwise.
Status CheckRegions(const LiveMap& map, std::span<const MutableBytes> memory);

}  // namespace xorbit
