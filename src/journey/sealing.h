// From finished payloads to a sealed delta folder: shared by diff and fold.
#pragma once

#include <vector>

#include "journey/journey.h"

namespace xorbit {

// Sum of the payloads' after - before.
StateDigest TotalChange(const std::vector<Payload>& payloads);

// Writes the folder of the delta from state `base` to state `target`.
Result<DeltaSummary> SealDelta(const Runtime& runtime, const fs::path& delta, const Layout& layout,
                               const std::vector<Payload>& payloads, const StateDigest& base, const StateDigest& target);

}  // namespace xorbit
