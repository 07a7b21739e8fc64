#include "tensor/engine_regions.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace xorbit {

Status EngineRegions::Add(const EngineItem& item) {
  const TensorSpec& tensor = layout_.tensors()[item.tensor_index];
  EngineRegion& region = regions_[item.region];
  const EngineRule& rule = *item.rule;
  if (region.first == nullptr) {
    region.first = &item;
    region.columns = item.column_slice.live_length;
    region.blocks = IsExpert(rule) ? experts_per_rank_ : 1;
  }
  const EngineRule& first = *region.first->rule;
  const std::string where =
      " that lies in region " + Quoted(item.region) + " with " + Quoted(layout_.tensors()[region.first->tensor_index].name);
  if (item.column_slice.live_length != region.columns || item.live_bits != region.first->live_bits) {
    return RefuseTensor(tensor, "has other columns or elements than the tensor" + where);
  }
  if (rule.swizzle != first.swizzle || rule.transpose != first.transpose || rule.interleave_rows != first.interleave_rows ||
      IsExpert(rule) != IsExpert(first)) {
    return RefuseTensor(tensor, "is laid out in another way than the tensor" + where);
  }
  region.slot_rows.resize(std::max<size_t>(region.slot_rows.size(), rule.slot + size_t{1}), 0);
  uint64_t& rows = region.slot_rows[rule.slot];
  if (rows != 0 && rows != item.row_slice.live_length) return RefuseTensor(tensor, "has other rows than the tensor" + where);
  rows = item.row_slice.live_length;
  return {};
}

Result<std::vector<LiveRegion>> EngineRegions::Close() {
  std::vector<LiveRegion> all;
  for (auto& [name, region] : regions_) {
    const EngineRule& rule = *region.first->rule;
    for (const uint64_t rows : region.slot_rows) {
      if (rows == 0) return RefusedError("region " + Quoted(name) + " has an empty slot: no tensor fills it");
      if (rule.interleave_rows != 0 && (rows != region.slot_rows[0] || rows % rule.interleave_rows != 0)) {
        return RefusedError("region " + Quoted(name) + " has slots of rows that cannot take turns in groups of " +
                            std::to_string(rule.interleave_rows));
      }
    }
    const auto granules = CheckedMul(region.block_granules(), region.blocks);
    const auto bits = granules ? CheckedMul(*granules, region.first->live_bits) : std::nullopt;
    if (!bits || *bits % 8 != 0) return RefusedError("region " + Quoted(name) + " does not have a whole number of bytes");
    region.index = static_cast<uint32_t>(all.size());
    all.push_back({.name = name, .byte_count = *bits / 8});
  }
  return all;
}

}  // namespace xorbit
