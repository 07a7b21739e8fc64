// Tensor names as patterns with captures, so that one rule speaks of all layers and experts:
// "model.layers.*.mlp.experts.*.gate_proj.weight" goes to "model.layers.$1.mlp.experts.w13_weight".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace xorbit {

// What the pattern's stars stand for, in order, if it matches the whole name: * for one or more characters other than a dot, as
// few as will do; ** for any characters, or none. The views point into `name`.
std::optional<std::vector<std::string_view>> MatchName(std::string_view pattern, std::string_view name);

// `text` with each $1 to $9 replaced by that capture. kUsage if there is no such capture.
Result<std::string> FillIn(std::string_view text, const std::vector<std::string_view>& captures);

}  // namespace xorbit
