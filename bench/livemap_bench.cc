// What attaching an engine costs: checking, sorting and proving the live map of a large mixture of experts, and reading its
// file. The proofs' limit is one second for 200,000 pieces.
//
// The model has layers of 256 experts in NVFP4 (packed weights and swizzled block scales, gate and up in turns of 64 rows: 6
// tensors an expert) and their routers; the rank holds a quarter of the experts.
//
//   livemap_bench      XORBIT_BENCH_LAYERS: default 8, 3,080 pieces; 540 gives 207,900 pieces of 830,000 tensors
#include <benchmark/benchmark.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tensor/engine_layouts.h"
#include "tensor/live_cursor.h"
#include "tensor/live_map_json.h"
#include "tensor/live_proofs.h"

namespace xorbit {
namespace {

constexpr uint32_t kExperts = 256;

uint32_t LayerCount() {
  uint32_t layers = 8;
  if (const char* text = std::getenv("XORBIT_BENCH_LAYERS"); text != nullptr) {
    const auto [end, error] = std::from_chars(text, text + std::strlen(text), layers);
    if (error != std::errc() || *end != '\0' || layers == 0) {
      std::fprintf(stderr, "XORBIT_BENCH_LAYERS must be a number of layers, at least 1\n");
      std::exit(2);
    }
  }
  return layers;
}

struct Model {
  Layout layout;
  EngineLayout engine;
  LiveMapSpec spec;
  LiveMap map;
  std::string json;
};

void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::abort();
}

template <typename T>
T Checked(Result<T> result) {
  Check(result.status());
  return std::move(result).value();
}

Layout MakeLayout() {
  std::vector<TensorSpec> tensors;
  const auto add = [&](std::string name, Dtype dtype, std::vector<uint64_t> shape) {
    TensorSpec& tensor = tensors.emplace_back();
    tensor.name = std::move(name);
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
  };
  for (uint32_t layer = 0; layer < LayerCount(); ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.";
    add(prefix + "gate.weight", Dtype::kBF16, {kExperts, 6144});
    for (uint32_t expert = 0; expert < kExperts; ++expert) {
      const std::string name = prefix + "experts." + std::to_string(expert) + ".";
      for (const char* part : {"gate_proj", "up_proj"}) {
        add(name + part + ".weight", Dtype::kU8, {2048, 3072});
        add(name + part + ".weight_scale", Dtype::kF8E4M3, {2048, 384});
      }
      add(name + "down_proj.weight", Dtype::kU8, {6144, 1024});
      add(name + "down_proj.weight_scale", Dtype::kF8E4M3, {6144, 128});
    }
  }
  return Checked(Layout::Make(std::move(tensors)));
}

EngineLayout Rules() {
  EngineLayout engine;
  engine.expert_count = kExperts;
  const std::string expert = "model.layers.*.mlp.experts.*.";
  const std::string target = "model.layers.$1.mlp.experts.";
  engine.rules.push_back({.pattern = "**"});
  for (const bool scale : {false, true}) {
    const std::string kind = scale ? "weight_scale" : "weight";
    EngineRule rule{.slice = Slice::kRows, .interleave_rows = 64, .expert_capture = 2, .swizzle = scale};
    for (const uint32_t slot : {0U, 1U}) {
      rule.pattern = expert + (slot == 0 ? "up_proj." : "gate_proj.") + kind;
      rule.target = target + "w13_" + kind;
      rule.slot = slot;
      engine.rules.push_back(rule);
    }
    engine.rules.push_back({.pattern = expert + "down_proj." + kind,
                            .target = target + "w2_" + kind,
                            .slice = Slice::kColumns,
                            .expert_capture = 2,
                            .swizzle = scale});
  }
  return engine;
}

constexpr EngineRank kRank{.rank = 1, .world_size = 4, .tp_size = 4, .ep_size = 4};

const Model& TheModel() {
  static const Model model = [] {
    Model made;
    made.layout = MakeLayout();
    made.engine = Rules();
    made.spec = Checked(PlanEngine(made.layout, made.engine, kRank));
    made.map = Checked(LiveMap::Make(made.layout, made.spec));
    made.json = WriteLiveMapJson(made.layout, made.map);
    return made;
  }();
  return model;
}

void Count(benchmark::State& state) {
  const Model& model = TheModel();
  state.counters["pieces"] = static_cast<double>(model.map.pieces().size());
  state.counters["classes"] = static_cast<double>(model.map.classes().size());
  state.counters["tensors"] = static_cast<double>(model.layout.tensors().size());
}

void BM_Plan(benchmark::State& state) {
  const Model& model = TheModel();
  for (auto _ : state) benchmark::DoNotOptimize(PlanEngine(model.layout, model.engine, kRank));
  Count(state);
}

void BM_Make(benchmark::State& state) {
  const Model& model = TheModel();
  for (auto _ : state) benchmark::DoNotOptimize(LiveMap::Make(model.layout, model.spec));
  Count(state);
}

void BM_ProveSingleWriter(benchmark::State& state) {
  const Model& model = TheModel();
  for (auto _ : state) Check(ProveSingleWriter(model.layout, model.map));
  Count(state);
}

// Over all four ranks.
void BM_ProveCohortCoverage(benchmark::State& state) {
  const Model& model = TheModel();
  std::vector<LiveMap> maps;
  std::vector<const LiveMap*> ranks;
  for (EngineRank rank = kRank; maps.size() < rank.world_size;) {
    rank.rank = static_cast<uint32_t>(maps.size());
    maps.push_back(Checked(LiveMap::Make(model.layout, Checked(PlanEngine(model.layout, model.engine, rank)))));
  }
  for (const LiveMap& map : maps) ranks.push_back(&map);
  for (auto _ : state) Check(ProveCohortCoverage(model.layout, ranks));
  Count(state);
}

void BM_ReadJson(benchmark::State& state) {
  const Model& model = TheModel();
  for (auto _ : state) Check(ParseLiveMapJson(model.json, model.layout).status());
  Count(state);
  state.counters["MB"] = static_cast<double>(model.json.size()) / 1e6;
}

// Every 97th granule of every tenth tensor, in order: a search by a comparison or a step, whatever the layout. "items" are
// finds.
void BM_Find(benchmark::State& state) {
  const Model& model = TheModel();
  uint64_t found = 0;
  for (auto _ : state) {
    for (uint32_t tensor = 0; tensor < model.layout.tensors().size(); tensor += 10) {
      if (model.map.track_count(tensor) == 0) continue;
      LiveCursor cursor(model.map, tensor, 0);
      for (uint64_t granule = 0; granule < 100'000; granule += 97) {
        benchmark::DoNotOptimize(cursor.Find(granule).LiveGranuleOf(granule));
        ++found;
      }
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(found));
}

BENCHMARK(BM_Plan)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Make)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ProveSingleWriter)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ProveCohortCoverage)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ReadJson)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Find)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace xorbit
