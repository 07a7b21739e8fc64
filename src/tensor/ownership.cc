#include "tensor/ownership.h"

#include <algorithm>
#include <map>
#include <queue>
#include <string>
#include <utility>

namespace xorbit {
namespace {

bool IsOwnable(const TensorSpec& tensor) { return !tensor.frozen && tensor.byte_count != 0; }

// The first element of slice `index` when `element_count` elements are cut into `slice_count` nearly equal slices.
uint64_t SliceBegin(uint64_t element_count, uint32_t slice_count, uint32_t index) {
  const uint64_t whole = element_count / slice_count;
  const uint64_t rest = element_count % slice_count;
  return whole * index + rest * index / slice_count;  // rest and index are below 2^32
}

// Elements in one row of a matrix, if each row can be cut into `slice_count` equal runs of whole elements; 0 otherwise.
uint64_t ColumnsToCut(const TensorSpec& tensor, uint32_t slice_count) {
  if (tensor.shape.size() < 2) return 0;
  const uint64_t row_bits = tensor.shape.back() * BitsOf(tensor.dtype);
  const uint64_t unit_bits = uint64_t{8} * UnitBytesOf(tensor.dtype);
  if (row_bits % unit_bits != 0) return 0;
  const uint64_t columns = row_bits / unit_bits;
  return columns % slice_count == 0 ? columns : 0;
}

// Collects each owner's parts by (group, unit). Tensors are added in layout order, so parts come out in order.
class OwnerLists {
 public:
  explicit OwnerLists(uint32_t owner_count) : parts_(owner_count) {}

  void Add(uint32_t owner, const TensorSpec& tensor, Part part) {
    parts_[owner][{tensor.group, UnitBytesOf(tensor.dtype)}].push_back(std::move(part));
  }

  Result<std::vector<std::vector<SegmentMap>>> Finish(const Layout& layout) {
    std::vector<std::vector<SegmentMap>> owners(parts_.size());
    for (size_t owner = 0; owner < parts_.size(); ++owner) {
      for (auto& [group_and_unit, parts] : parts_[owner]) {
        XORBIT_ASSIGN_OR_RETURN(SegmentMap map,
                                SegmentMap::Make(layout, group_and_unit.second, group_and_unit.first, std::move(parts)));
        owners[owner].push_back(std::move(map));
      }
    }
    return owners;
  }

 private:
  std::vector<std::map<std::pair<uint32_t, uint32_t>, std::vector<Part>>> parts_;
};

// Largest tensor first, each to the owner that holds the fewest bytes so far; ties go to the earlier tensor and the lower
// owner. No two owners then differ by more than the largest tensor. Returns the owner of each tensor.
std::vector<uint32_t> BalanceWholeTensors(const Layout& layout, uint32_t owner_count) {
  const std::vector<TensorSpec>& tensors = layout.tensors();
  std::vector<uint32_t> by_size;
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    if (IsOwnable(tensors[i])) by_size.push_back(i);
  }
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](uint32_t a, uint32_t b) { return tensors[a].byte_count > tensors[b].byte_count; });
  using Load = std::pair<uint64_t, uint32_t>;  // bytes, owner
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (uint32_t owner = 0; owner < owner_count; ++owner) loads.emplace(0, owner);
  std::vector<uint32_t> owner_of(tensors.size(), 0);
  for (const uint32_t i : by_size) {
    auto [bytes, owner] = loads.top();
    loads.pop();
    owner_of[i] = owner;
    loads.emplace(bytes + tensors[i].byte_count, owner);
  }
  return owner_of;
}

void AddRanges(const TensorSpec& tensor, uint32_t tensor_index, uint32_t owner_count, OwnerLists* lists) {
  for (uint32_t owner = 0; owner < owner_count; ++owner) {
    const uint64_t begin = SliceBegin(tensor.unit_count(), owner_count, owner);
    const uint64_t end = SliceBegin(tensor.unit_count(), owner_count, owner + 1);
    if (begin != end) lists->Add(owner, tensor, {tensor_index, begin, {Digit{end - begin, 1}}});
  }
}

void AddColumns(const TensorSpec& tensor, uint32_t tensor_index, uint64_t columns, uint32_t owner_count, OwnerLists* lists) {
  const uint64_t rows = tensor.unit_count() / columns;
  const uint64_t width = columns / owner_count;
  for (uint32_t owner = 0; owner < owner_count; ++owner) {
    std::vector<Digit> digits;
    if (rows > 1) digits.push_back({rows, columns});
    digits.push_back({width, 1});
    lists->Add(owner, tensor, {tensor_index, owner * width, std::move(digits)});
  }
}

}  // namespace

Result<Split> ParseSplit(std::string_view name) {
  if (name == "whole") return Split::kWhole;
  if (name == "range") return Split::kRange;
  if (name == "column") return Split::kColumn;
  return UsageError("'" + std::string(name) + "' is not a way to split; choose whole, range or column");
}

Result<std::vector<std::vector<SegmentMap>>> PlanOwners(const Layout& layout, uint32_t owner_count, Split split) {
  if (owner_count == 0 || owner_count > kMaxOwners) {
    return UsageError("the number of owners must be 1 to " + std::to_string(kMaxOwners));
  }
  std::vector<uint32_t> owner_of;
  if (split == Split::kWhole) owner_of = BalanceWholeTensors(layout, owner_count);
  OwnerLists lists(owner_count);
  for (uint32_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    if (!IsOwnable(tensor)) continue;
    const uint64_t columns = split == Split::kColumn ? ColumnsToCut(tensor, owner_count) : 0;
    if (split == Split::kWhole || owner_count == 1) {
      lists.Add(split == Split::kWhole ? owner_of[i] : 0, tensor, WholeTensor(layout, i));
    } else if (columns != 0) {
      AddColumns(tensor, i, columns, owner_count, &lists);
    } else {
      AddRanges(tensor, i, owner_count, &lists);
    }
  }
  return lists.Finish(layout);
}

}  // namespace xorbit
