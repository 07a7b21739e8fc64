#include "cli/demo_engine.h"

#include <algorithm>
#include <charconv>

#include "tensor/engine_layouts.h"
#include "tensor/name_pattern.h"

namespace xorbit {
namespace {

// What an engine does to a checkpoint of the common names: fuses q, k and v, stacks the experts, cuts over tensor-parallel
// ranks.
EngineLayout EngineOf(const Layout& layout) {
  EngineLayout engine;
  const auto rows = [](std::string pattern, std::string target, uint32_t slot, uint32_t expert_capture) {
    EngineRule rule{.pattern = std::move(pattern), .target = std::move(target), .slice = Slice::kRows, .slot = slot};
    rule.expert_capture = expert_capture;
    return rule;
  };
  const std::string attention = "model.layers.*.self_attn.";
  const std::string qkv = "model.layers.$1.self_attn.qkv_proj.weight";
  const std::string expert = "model.layers.*.mlp.experts.*.";
  const std::string w13 = "model.layers.$1.mlp.experts.w13_weight";
  const std::string w2 = "model.layers.$1.mlp.experts.w2_weight";
  engine.rules = {
      EngineRule{.pattern = "**"},
      rows(attention + "q_proj.weight", qkv, 0, 0),
      rows(attention + "k_proj.weight", qkv, 1, 0),
      rows(attention + "v_proj.weight", qkv, 2, 0),
      rows(expert + "gate_proj.weight", w13, 0, 2),
      rows(expert + "up_proj.weight", w13, 1, 2),
      EngineRule{.pattern = "**.o_proj.weight", .slice = Slice::kColumns},
      EngineRule{.pattern = expert + "down_proj.weight", .target = w2, .slice = Slice::kColumns, .expert_capture = 2},
      rows("model.embed_tokens.weight", "model.embed_tokens.weight", 0, 0)};
  for (const TensorSpec& tensor : layout.tensors()) {
    const auto captures = MatchName("model.layers.*.mlp.experts.*.**", tensor.name);
    uint32_t number = 0;
    if (!captures || std::from_chars((*captures)[1].begin(), (*captures)[1].end(), number).ec != std::errc()) continue;
    engine.expert_count = std::max(engine.expert_count, number + 1);
  }
  return engine;
}

}  // namespace

LiveMap DemoEngineMap(const Layout& layout, uint32_t rank, uint32_t rank_count) {
  auto spec = PlanEngine(layout, EngineOf(layout), {.rank = rank, .world_size = rank_count, .tp_size = rank_count});
  if (!spec.ok())
    spec = PlanEngine(layout, {.rules = {{.pattern = "**"}}}, {.rank = rank, .world_size = rank_count, .tp_size = rank_count});
  auto map = spec.ok() ? LiveMap::Make(layout, std::move(spec).value()) : Result<LiveMap>(spec.status());
  return map.ok() ? std::move(map).value() : CanonicalMap(layout);
}

}  // namespace xorbit
