#include "tensor/engine_cut.h"

#include <algorithm>
#include <utility>

#include "base/checked_math.h"
#include "base/text.h"

namespace xorbit {
namespace {

// One axis of `length` elements of `bits`, in granules.
Result<AxisSlice> CutAxis(const TensorSpec& tensor, const EngineRule& rule, const EngineRank& rank, Slice axis, uint64_t length,
                          uint32_t bits, uint32_t granule_bits) {
  const bool is_cut = rule.slice == axis;
  std::vector<AxisSection> sections = is_cut ? rule.sections : std::vector<AxisSection>();
  if (sections.empty()) sections.push_back({.length = length, .heads = is_cut ? rule.heads : 0});
  uint64_t total = 0;
  for (AxisSection& section : sections) {
    const auto next = CheckedAdd(total, section.length);
    if (!next || *next > length) return RefuseTensor(tensor, "is shorter than its sections");
    total = *next;
    if (section.length * bits % granule_bits != 0)
      return RefuseTensor(tensor, "has a section that does not end on whole bytes");
    section.length = section.length * bits / granule_bits;
  }
  if (total != length) return RefuseTensor(tensor, "is longer than its sections");
  const uint64_t pad_to = is_cut ? std::max<uint64_t>(1, rule.pad_to * bits / granule_bits) : 1;
  auto slice = SliceAxis(sections, pad_to, is_cut ? CutOf(rule, rank) : AxisCut());
  if (!slice.ok()) return RefuseTensor(tensor, slice.status().message());
  return slice;
}

}  // namespace

Status RefuseTensor(const TensorSpec& tensor, const std::string& why) {
  return RefusedError("tensor " + Quoted(tensor.name) + " " + why);
}

AxisCut CutOf(const EngineRule& rule, const EngineRank& rank) {
  return IsExpert(rule) ? AxisCut{rank.rank % ExpertTpSize(rank), ExpertTpSize(rank)}
                        : AxisCut{rank.rank % rank.tp_size, rank.tp_size};
}

bool CountsReplica(const EngineRule& rule, const EngineRank& rank) {
  const bool first_group = IsExpert(rule) || rank.rank < rank.tp_size;
  return first_group && (rule.slice != Slice::kReplicate || CutOf(rule, rank).index == 0);
}

Result<EngineItem> CutTensor(const Layout& layout, const EngineRank& rank, EngineItem item) {
  const EngineRule& rule = *item.rule;
  const TensorSpec& tensor = layout.tensors()[item.tensor_index];
  const uint32_t bits = BitsOf(tensor.dtype);
  item.granule_bits = rule.nibble_order.empty() ? 8 * UnitBytesOf(tensor.dtype) : 4;
  item.live_bits = rule.placement == Placement::kShadow ? LiveBitsOf(rule.cast, item.granule_bits) : item.granule_bits;
  if (rule.swizzle && item.live_bits != 8) return RefuseTensor(tensor, "is swizzled but its elements are not bytes");
  const size_t rows_at = rule.stacks_experts ? 1 : 0;
  item.rows = tensor.shape.size() > rows_at ? tensor.shape[rows_at] : 1;
  uint64_t column_elements = 1;
  for (size_t i = rows_at + 1; i < tensor.shape.size(); ++i) column_elements *= tensor.shape[i];
  if (column_elements == 1 && bits < item.granule_bits) std::swap(item.rows, column_elements);  // a packed vector is one row
  if (column_elements * bits % item.granule_bits != 0) return RefuseTensor(tensor, "has rows that do not end on whole bytes");
  item.columns = column_elements * bits / item.granule_bits;
  XORBIT_ASSIGN_OR_RETURN(item.row_slice, CutAxis(tensor, rule, rank, Slice::kRows, item.rows, 1, 1));
  XORBIT_ASSIGN_OR_RETURN(item.column_slice,
                          CutAxis(tensor, rule, rank, Slice::kColumns, column_elements, bits, item.granule_bits));
  if (!rule.nibble_order.empty()) {
    auto reordered = Reorder(item.column_slice.runs, rule.nibble_order);
    if (!reordered.ok()) return RefuseTensor(tensor, reordered.status().message());
    item.column_slice.runs = std::move(reordered).value();
  }
  return item;
}

}  // namespace xorbit
