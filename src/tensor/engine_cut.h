// What a rank holds of a tensor: the rows and columns that its rule leaves it, before they get a place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/axis_plan.h"
#include "tensor/engine_experts.h"
#include "tensor/engine_layouts.h"
#include "tensor/layout.h"

namespace xorbit {

// A tensor that this rank holds, cut but not yet placed. Columns are counted in granules.
struct EngineItem {
  uint32_t tensor_index = 0;
  const EngineRule* rule = nullptr;
  std::string region;
  std::vector<ExpertPlace> places;
  bool counted = true;
  uint32_t granule_bits = 0;
  uint32_t live_bits = 0;
  uint64_t rows = 0;
  uint64_t columns = 0;
  AxisSlice row_slice;
  AxisSlice column_slice;
};

inline bool IsExpert(const EngineRule& rule) { return rule.expert_capture != 0 || rule.stacks_experts; }

AxisCut CutOf(const EngineRule& rule, const EngineRank& rank);
// Whether this rank is the first of those that hold the same part.
bool CountsReplica(const EngineRule& rule, const EngineRank& rank);

// kRefused: the tensor, and why.
Status RefuseTensor(const TensorSpec& tensor, const std::string& why);

// Fills in what follows from tensor, rule and rank. kRefused if the tensor cannot be cut as its rule says.
Result<EngineItem> CutTensor(const Layout& layout, const EngineRank& rank, EngineItem item);

}  // namespace xorbit
