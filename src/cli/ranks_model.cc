#include "cli/ranks_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "base/checked_math.h"
#include "base/text.h"
#include "publish/shards.h"
#include "tensor/engine_layouts.h"
#include "tensor/name_pattern.h"
#include "tensor/piece_runs.h"

namespace xorbit {
namespace {

constexpr uint64_t kUnitBytes = 2;  // BF16
constexpr uint32_t kExperts = 16;   // a layer
constexpr uint64_t kRegionAlignment = 256;

TensorSpec Matrix(const std::string& name, uint64_t rows, uint64_t columns) {
  return {.name = name, .dtype = Dtype::kBF16, .shape = {rows, columns}};
}

void AddLayer(uint64_t layer, uint64_t hidden, std::vector<TensorSpec>* tensors) {
  const std::string prefix = "layers." + ZeroPadded(layer, 4) + ".";
  tensors->push_back({.name = prefix + "norm.weight", .dtype = Dtype::kBF16, .shape = {hidden}});
  tensors->push_back(Matrix(prefix + "q_proj.weight", hidden, hidden));
  tensors->push_back(Matrix(prefix + "k_proj.weight", hidden / 4, hidden));
  tensors->push_back(Matrix(prefix + "v_proj.weight", hidden / 4, hidden));
  tensors->push_back(Matrix(prefix + "o_proj.weight", hidden, hidden));
  for (uint32_t expert = 0; expert < kExperts; ++expert) {
    const std::string name = prefix + "experts." + std::to_string(expert) + ".";
    tensors->push_back(Matrix(name + "w13.weight", hidden, hidden));
    tensors->push_back(Matrix(name + "w2.weight", hidden, hidden / 2));
  }
}

// Bytes of a layer, norms left out: 2.5 matrices of attention, 1.5 an expert.
uint64_t LayerBytes(uint64_t hidden) { return (5 + 3 * kExperts) * hidden * hidden / 2 * kUnitBytes; }

EngineLayout EngineOf() {
  const auto rows = [](std::string name, uint32_t slot) {
    return EngineRule{
        .pattern = "layers.*." + std::move(name) + ".weight", .target = "layers.$1.qkv", .slice = Slice::kRows, .slot = slot};
  };
  const auto experts = [](const std::string& name) {
    return EngineRule{
        .pattern = "layers.*.experts.*." + name + ".weight", .target = "layers.$1.experts." + name, .expert_capture = 2};
  };
  EngineLayout engine;
  engine.expert_count = kExperts;
  engine.rules = {EngineRule{.pattern = "**"},
                  rows("q_proj", 0),
                  rows("k_proj", 1),
                  rows("v_proj", 2),
                  EngineRule{.pattern = "layers.*.o_proj.weight", .slice = Slice::kColumns},
                  experts("w13"),
                  experts("w2")};
  return engine;
}

Result<std::optional<Part>> OwnedPart(const Layout& layout, uint32_t tensor_index, ShardPlace place) {
  const std::string& name = layout.tensors()[tensor_index].name;
  if (const auto expert = MatchName("layers.*.experts.*.*.weight", name)) {
    uint32_t number = 0;
    std::from_chars((*expert)[1].begin(), (*expert)[1].end(), number);
    const bool is_own = number % place.rank_count == place.rank;
    return is_own ? std::optional(WholeTensor(layout, tensor_index)) : std::nullopt;
  }
  if (name.ends_with("o_proj.weight")) return ColumnShard(layout, tensor_index, place);
  return RowShard(layout, tensor_index, place);
}

}  // namespace

uint64_t RanksModel::change_count() const {
  const uint64_t units = byte_count() / kUnitBytes;
  return static_cast<uint64_t>(static_cast<double>(units) * static_cast<double>(formula.element_threshold) / 4294967296.0);
}

Result<RanksModel> MakeRanksModel(uint64_t byte_count, double percent) {
  // Few and large matrices as in real models; small ones where the model is small.
  constexpr std::array<uint64_t, 3> kHidden = {4096, 1024, 256};
  const auto* const hidden = std::ranges::find_if(kHidden, [&](uint64_t h) { return byte_count >= 4 * LayerBytes(h); });
  const uint64_t width = hidden == kHidden.end() ? kHidden.back() : *hidden;
  const uint64_t layers = std::max<uint64_t>(1, (byte_count + LayerBytes(width) / 2) / LayerBytes(width));
  std::vector<TensorSpec> tensors;
  for (uint64_t layer = 0; layer < layers; ++layer) AddLayer(layer, width, &tensors);
  RanksModel model;
  XORBIT_ASSIGN_OR_RETURN(model.layout, Layout::Make(std::move(tensors)));
  model.formula.unit_bytes = kUnitBytes;
  model.formula.element_threshold = static_cast<uint64_t>(std::llround(percent / 100 * 4294967296.0));
  uint64_t at = 0;
  for (const TensorSpec& tensor : model.layout.tensors()) {
    model.first_bytes.push_back(at);
    at += tensor.byte_count;
  }
  return model;
}

Result<LiveMap> SamplerMap(const RanksModel& model, uint32_t rank, uint32_t rank_count) {
  const EngineRank place{.rank = rank, .world_size = rank_count, .tp_size = rank_count, .ep_size = rank_count};
  XORBIT_ASSIGN_OR_RETURN(LiveMapSpec spec, PlanEngine(model.layout, EngineOf(), place));
  return LiveMap::Make(model.layout, std::move(spec));
}

RegionPlaces PlaceRegions(const LiveMap& map) {
  RegionPlaces places;
  for (const LiveRegion& region : map.regions()) {
    places.offsets.push_back(places.byte_count);
    places.byte_count += DivideRoundUp(region.byte_count, kRegionAlignment) * kRegionAlignment;
  }
  return places;
}

std::vector<FormulaPiece> PiecesOf(const RanksModel& model, const LiveMap& map, const RegionPlaces& places) {
  std::vector<FormulaPiece> pieces;
  for (const Piece& piece : map.pieces()) {
    const PieceClass& shape = map.class_of(piece);
    const uint64_t granule_bytes = shape.granule_bits / 8;
    ForEachRun(shape, piece, [&](uint64_t canonical, uint64_t live) {
      pieces.push_back({places.offsets[piece.region_index] + live * granule_bytes, shape.run_length() * granule_bytes,
                        model.first_bytes[piece.tensor_index] + canonical * granule_bytes});
    });
  }
  return pieces;
}

Result<RankPlan> TrainerPlan(const RanksModel& model, uint32_t rank, uint32_t rank_count) {
  std::vector<std::vector<SegmentMap>> owners;
  for (uint32_t owner = 0; owner < rank_count; ++owner) {
    std::vector<Part> parts;
    for (uint32_t i = 0; i < model.layout.tensors().size(); ++i) {
      XORBIT_ASSIGN_OR_RETURN(const std::optional<Part> part, OwnedPart(model.layout, i, {owner, rank_count}));
      if (part) parts.push_back(*part);
    }
    XORBIT_ASSIGN_OR_RETURN(SegmentMap map, SegmentMap::Make(model.layout, kUnitBytes, 0, std::move(parts)));
    owners.emplace_back();
    owners.back().push_back(std::move(map));
  }
  return std::move(PlansOf(std::move(owners))[rank]);
}

std::vector<FormulaPiece> PiecesOf(const RanksModel& model, const SegmentMap& map) {
  std::vector<FormulaPiece> pieces;
  RunWalker runs(map, 0, map.element_count());
  for (Run run; runs.Next(&run);) {
    pieces.push_back({run.segment_element * map.unit_bytes(), run.element_count * map.unit_bytes(),
                      model.first_bytes[run.tensor_index] + run.tensor_element * map.unit_bytes()});
  }
  return pieces;
}

}  // namespace xorbit
