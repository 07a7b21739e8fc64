// Which deltas and anchors a stream may forget. Pure. What stays: everything between the newest versions, and a way to the
// newest version from the base, from the newest anchors and from every mark.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "store/edge.h"

namespace xorbit {

struct RetentionPolicy {
  uint64_t version_count = 256;  // newest committed versions between which no delta is dropped; at least 1
  uint64_t anchor_count = 1;     // newest anchors that stay
};

struct RetentionPlan {
  std::vector<PublicationPlace> places;  // deltas to drop, ascending
  std::vector<uint64_t> anchors;         // anchors to drop, ascending
};

// `committed`, ascending, holds all committed versions; `edges` all deltas between them; `anchors`, ascending, the versions
// that are there as whole checkpoints (version 0, which every receiver can have, counts as one without being listed). To the
// newest `resume_window` version numbers, which is the stream's, a way stays whatever `policy` says: a trainer may go back to
// them. Drops nothing if no way leads from any anchor or from version 0 to the newest version: then something is amiss.
RetentionPlan PlanRetention(std::span<const uint64_t> committed, std::span<const Edge> edges, std::span<const uint64_t> anchors,
                            std::span<const uint64_t> marks, uint64_t resume_window, const RetentionPolicy& policy);

}  // namespace xorbit
