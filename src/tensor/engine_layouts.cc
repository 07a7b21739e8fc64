#include "tensor/engine_layouts.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/text.h"
#include "tensor/engine_cut.h"
#include "tensor/engine_experts.h"
#include "tensor/engine_pieces.h"
#include "tensor/engine_regions.h"
#include "tensor/name_pattern.h"

namespace xorbit {
namespace {

constexpr uint32_t kMaxSlots = 64;

class EnginePlanner {
 public:
  EnginePlanner(const Layout& layout, const EngineLayout& engine, const EngineRank& rank)
      : layout_(layout), engine_(engine), rank_(rank) {}

  Result<LiveMapSpec> Plan() {
    XORBIT_RETURN_IF_ERROR(CheckDeclaration());
    XORBIT_ASSIGN_OR_RETURN(experts_, PlanExperts(engine_, rank_));
    spec_.epoch = engine_.epoch;
    spec_.absent_groups = engine_.absent_groups;
    for (uint32_t i = 0; i < layout_.tensors().size(); ++i) XORBIT_RETURN_IF_ERROR(TakeTensor(i));
    EngineRegions regions(layout_, experts_.per_rank);
    for (const EngineItem& item : items_) XORBIT_RETURN_IF_ERROR(regions.Add(item));
    XORBIT_ASSIGN_OR_RETURN(spec_.regions, regions.Close());
    PieceEmitter pieces(layout_, &spec_);
    for (const EngineItem& item : items_) XORBIT_RETURN_IF_ERROR(pieces.Emit(item, regions.RegionOf(item)));
    spec_.classes = std::move(pieces).TakeClasses();
    return std::move(spec_);
  }

 private:
  Status CheckDeclaration() const {
    const auto divides = [&](uint32_t size) { return size != 0 && rank_.world_size % size == 0; };
    if (rank_.rank >= rank_.world_size || !divides(rank_.tp_size) || !divides(rank_.ep_size)) {
      return UsageError("an engine's rank must be below its world size, which tp_size and ep_size must divide");
    }
    for (const EngineRule& rule : engine_.rules) {
      const auto fail = [&](const std::string& why) { return UsageError("the rule for '" + rule.pattern + "' " + why); };
      if (rule.slot >= kMaxSlots) return fail("has a slot over " + std::to_string(kMaxSlots - 1));
      if (rule.pad_to == 0) return fail("pads to a multiple of 0");
      if (rule.swizzle && (rule.transpose || !rule.nibble_order.empty())) return fail("swizzles and reorders besides");
      if (rule.placement == Placement::kShadow && !rule.nibble_order.empty()) return fail("moves half bytes of a shadow");
      if (rule.placement == Placement::kAlias && rule.target.empty()) return fail("is an alias of nothing");
      if (rule.placement == Placement::kDerived && rule.callback.empty()) return fail("is derived by nothing");
      if (rule.slice == Slice::kReplicate && (!rule.sections.empty() || rule.heads != 0 || rule.pad_to != 1)) {
        return fail("has sections, heads or padding but cuts nothing");
      }
      std::vector<uint32_t> order = rule.nibble_order;
      std::sort(order.begin(), order.end());
      for (uint32_t i = 0; i < order.size(); ++i) {
        if (order[i] != i) return fail("has an order of half bytes that is not a permutation");
      }
    }
    return {};
  }

  Status Fail(uint32_t tensor_index, const std::string& why) const {
    return RefuseTensor(layout_.tensors()[tensor_index], why);
  }

  Status TakeTensor(uint32_t tensor_index) {
    const TensorSpec& tensor = layout_.tensors()[tensor_index];
    const bool absent =
        std::find(engine_.absent_groups.begin(), engine_.absent_groups.end(), tensor.group) != engine_.absent_groups.end();
    if (tensor.byte_count == 0 || absent) return {};
    std::optional<std::vector<std::string_view>> captures;
    const EngineRule* rule = nullptr;
    for (auto at = engine_.rules.rbegin(); at != engine_.rules.rend() && !captures; ++at) {
      captures = MatchName(at->pattern, tensor.name);
      rule = &*at;
    }
    if (!captures) {
      if (tensor.frozen) return {};
      return Fail(tensor_index, "has no rule; add one, or declare its presence group absent");
    }
    XORBIT_ASSIGN_OR_RETURN(const std::vector<ExpertPlace> places, PlacesOf(tensor_index, *rule, *captures));
    if (places.empty()) return {};  // an expert of other ranks
    XORBIT_ASSIGN_OR_RETURN(const std::string target, FillIn(rule->target, *captures));
    if (!rule->callback.empty()) {
      const bool counted = CountsReplica(*rule, rank_) && places.front().counted;
      spec_.derived.push_back({.tensor_index = tensor_index, .callback = rule->callback, .counted = counted});
    }
    if (rule->placement == Placement::kDerived) return {};
    if (rule->placement == Placement::kAlias) {
      const auto of = layout_.Find(target);
      if (!of) return Fail(tensor_index, "is tied to " + Quoted(target) + ", which the layout does not have");
      spec_.aliases.push_back({.tensor_index = tensor_index, .of_tensor_index = *of});
      return {};
    }
    XORBIT_ASSIGN_OR_RETURN(EngineItem item, CutTensor(layout_, rank_,
                                                       {.tensor_index = tensor_index,
                                                        .rule = rule,
                                                        .region = target.empty() ? tensor.name : target,
                                                        .places = places,
                                                        .counted = CountsReplica(*rule, rank_),
                                                        .row_slice = {},
                                                        .column_slice = {}}));
    items_.push_back(std::move(item));
    return {};
  }

  Result<std::vector<ExpertPlace>> PlacesOf(uint32_t tensor_index, const EngineRule& rule,
                                            const std::vector<std::string_view>& captures) const {
    if (rule.expert_capture != 0) {
      if (rule.expert_capture > captures.size()) return UsageError("the rule for '" + rule.pattern + "' has no such capture");
      const std::string_view text = captures[rule.expert_capture - 1];
      uint32_t expert = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), expert);
      if (error != std::errc() || end != text.data() + text.size() || expert >= engine_.expert_count) {
        return Fail(tensor_index,
                    "names the expert " + Quoted(text) + ", but the engine has " + std::to_string(engine_.expert_count));
      }
      std::vector<ExpertPlace> places = experts_.places_of_expert[expert];
      for (ExpertPlace& place : places) place.canonical_expert = 0;  // each has a tensor of its own
      return places;
    }
    if (!rule.stacks_experts) return std::vector<ExpertPlace>{ExpertPlace()};
    const std::vector<uint64_t>& shape = layout_.tensors()[tensor_index].shape;
    if (shape.empty() || shape[0] != engine_.expert_count) {
      return Fail(tensor_index, "does not have " + std::to_string(engine_.expert_count) + " experts as its first dimension");
    }
    std::vector<ExpertPlace> places;
    for (const auto& of_one : experts_.places_of_expert) places.insert(places.end(), of_one.begin(), of_one.end());
    return places;
  }

  const Layout& layout_;
  const EngineLayout& engine_;
  const EngineRank& rank_;
  ExpertPlan experts_;
  std::vector<EngineItem> items_;
  LiveMapSpec spec_;
};

}  // namespace

Result<LiveMapSpec> PlanEngine(const Layout& layout, const EngineLayout& engine, const EngineRank& rank) {
  return EnginePlanner(layout, engine, rank).Plan();
}

}  // namespace xorbit
