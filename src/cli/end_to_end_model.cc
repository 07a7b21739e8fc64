// The model of `xorbit bench --end-to-end`: matrices of one dtype whose bytes follow a formula. Pure planning.
#include <cmath>

#include "base/text.h"
#include "cli/bench_workload.h"
#include "cli/end_to_end_run.h"
#include "publish/shards.h"

namespace xorbit {
namespace {

uint64_t ThresholdOf(double probability) { return static_cast<uint64_t>(std::llround(probability * 4294967296.0)); }

Result<ChangeFormula> FormulaOf(const WorkloadSpec& spec) {
  ChangeFormula formula;
  formula.unit_bytes = UnitBytesOf(spec.dtype);
  if (spec.values == ValueKind::kFp4) return UnsupportedError("--end-to-end has no workload reference-fp4");
  formula.random_bytes = spec.values == ValueKind::kRandom;
  // Rare changes are asked for once in 16 bytes, which is quicker; the formula has one of them there at most.
  if (spec.dtype == Dtype::kU8) {
    formula.cell_threshold = ThresholdOf(spec.density * cuda::testing::kCellBytes);
  } else {
    formula.element_threshold = ThresholdOf(spec.density);
  }
  return formula;
}

}  // namespace

Result<RanksModel> MakeEndToEndModel(uint64_t byte_count, const std::string& workload, uint32_t owner_count) {
  XORBIT_ASSIGN_OR_RETURN(const WorkloadSpec spec, FindWorkload(workload));
  RanksModel model;
  XORBIT_ASSIGN_OR_RETURN(model.formula, FormulaOf(spec));
  constexpr uint64_t kColumnBytes = 8192;
  constexpr uint64_t kLargeModelBytes = 4'000'000'000;
  const uint64_t rows = owner_count * (byte_count >= kLargeModelBytes ? uint64_t{8192} / owner_count : 16);
  const uint64_t columns = kColumnBytes / model.formula.unit_bytes;
  const uint64_t count = std::max<uint64_t>(1, byte_count / (rows * kColumnBytes));
  std::vector<TensorSpec> tensors;
  for (uint64_t i = 0; i < count; ++i) {
    tensors.push_back({.name = "layers." + ZeroPadded(i, 6) + ".weight", .dtype = spec.dtype, .shape = {rows, columns}});
  }
  XORBIT_ASSIGN_OR_RETURN(model.layout, Layout::Make(std::move(tensors)));
  for (uint64_t i = 0; i < count; ++i) model.first_bytes.push_back(i * rows * kColumnBytes);
  return model;
}

Result<std::vector<RankPlan>> PlanTrainers(const RanksModel& model, uint32_t owner_count) {
  std::vector<std::vector<SegmentMap>> owners;
  for (uint32_t owner = 0; owner < owner_count; ++owner) {
    std::vector<Part> parts;
    for (uint32_t i = 0; i < model.layout.tensors().size(); ++i) {
      XORBIT_ASSIGN_OR_RETURN(const std::optional<Part> part, RowShard(model.layout, i, {owner, owner_count}));
      if (part) parts.push_back(*part);
    }
    XORBIT_ASSIGN_OR_RETURN(SegmentMap map, SegmentMap::Make(model.layout, model.formula.unit_bytes, 0, std::move(parts)));
    owners.emplace_back();
    owners.back().push_back(std::move(map));
  }
  return PlansOf(std::move(owners));
}

}  // namespace xorbit
