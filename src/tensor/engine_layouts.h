// From a short declaration of how an engine loads a checkpoint to the live map of one of its ranks. Pure planning.
//
// A rule says of all tensors of one kind what the loader does with them: cut over ranks, put beside others into one parameter,
// stack the experts, reorder. Rules describe what PlanEngine can derive exactly; everything else is a shadow, a callback, or
// refused. docs/design/live-map.md shows the rules of common engines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/axis_plan.h"
#include "tensor/live_map.h"

namespace xorbit {

// Ranks are numbered data-parallel first: rank = dp * tp_size + tp. Experts spread over all of them: ep_size groups of
// neighbours hold different experts, and within a group each expert is cut as by tensor parallelism.
struct EngineRank {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint32_t tp_size = 1;  // divides world_size; the other ranks hold replicas
  uint32_t ep_size = 1;  // divides world_size
};

// A tensor is seen as a matrix: its first dimension are the rows (after the experts, if it stacks them), the others the
// columns; a vector is one column.
enum class Slice : uint8_t { kReplicate, kRows, kColumns };
enum class Placement : uint8_t {
  kLive,     // the same bits, moved
  kShadow,   // `cast` from a kept copy
  kAlias,    // tied to the tensor `target`
  kDerived,  // only the callback uses it
};

// Members have initialisers, also where they would be empty anyhow, so that rules can name the few that they set.
struct EngineRule {
  std::string pattern{};  // name_pattern.h; of several that match, the last rule wins
  Placement placement = Placement::kLive;
  std::string target{};    // region, or the tensor of an alias; $1 is a capture; empty: the tensor's own name
  std::string callback{};  // if not empty: a derived binding, besides the placement
  Cast cast = Cast::kCopy;

  Slice slice = Slice::kReplicate;
  std::vector<AxisSection> sections{};  // of the sliced axis; empty: one
  uint32_t heads = 0;                   // of that one
  uint64_t pad_to = 1;                  // of the sliced axis, before cutting: vocabularies

  uint32_t slot = 0;                     // which of the tensors of its region this is, by rows: q, k, v are 0, 1, 2
  uint64_t interleave_rows = 0;          // if not 0: slots take turns in groups of so many rows
  uint32_t expert_capture = 0;           // if not 0: this capture of the pattern is the number of an expert
  bool stacks_experts = false;           // the first dimension counts experts
  bool swizzle = false;                  // 128x4 block scales; elements of one byte
  bool transpose = false;                // live columns are rows
  std::vector<uint32_t> nibble_order{};  // if not empty: half bytes within each group of this size go to these places
};

struct EngineLayout {
  std::vector<EngineRule> rules{};
  uint32_t expert_count = 0;  // of a layer
  // What each physical expert slot of the whole cohort holds, first group first: load balancers move and copy experts. Empty:
  // each expert once, in order.
  std::vector<uint32_t> expert_slots{};
  std::vector<uint32_t> absent_groups{};
  uint64_t epoch = 0;
};

// The live map of one rank; regions ascend by name. Frozen tensors without a rule are left out; any other is kRefused by name,
// and so is whatever cannot be cut as its rule says. kUsage for a declaration that contradicts itself. Of what several ranks
// hold, the first of them counts, so that ProveCohortCoverage holds over all ranks.
Result<LiveMapSpec> PlanEngine(const Layout& layout, const EngineLayout& engine, const EngineRank& rank);

}  // namespace xorbit
