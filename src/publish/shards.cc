#include "publish/shards.h"

#include <algorithm>
#include <string>

#include "base/checked_math.h"
#include "base/text.h"

namespace xorbit {
namespace {

std::optional<Part> Range(uint32_t tensor_index, uint64_t begin, uint64_t end) {
  if (begin >= end) return std::nullopt;
  return Part{tensor_index, begin, {Digit{end - begin, 1}}};
}

Status CheckPlace(ShardPlace place) {
  if (place.rank < place.rank_count) return {};
  return UsageError("rank " + std::to_string(place.rank) + " is not one of " + std::to_string(place.rank_count));
}

Status CannotCut(const TensorSpec& tensor, const std::string& why) {
  return UsageError("tensor " + Quoted(tensor.name) + " cannot be cut so: " + why);
}

// Units in one index of the first dimension.
Result<uint64_t> RowUnits(const TensorSpec& tensor) {
  if (tensor.shape.empty()) return CannotCut(tensor, "it is a scalar");
  const uint64_t rows = tensor.shape.front();
  if (rows == 0) return uint64_t{0};
  if (tensor.unit_count() % rows != 0) return CannotCut(tensor, "its rows do not end on whole bytes");
  return tensor.unit_count() / rows;
}

}  // namespace

Result<std::optional<Part>> FlatShard(const Layout& layout, uint32_t tensor_index, ShardPlace place) {
  XORBIT_RETURN_IF_ERROR(CheckPlace(place));
  const uint64_t count = layout.tensors()[tensor_index].unit_count();
  const uint64_t share = DivideRoundUp(count, uint64_t{place.rank_count});
  const uint64_t begin = std::min(count, place.rank * share);
  return Range(tensor_index, begin, std::min(count, begin + share));
}

Result<std::optional<Part>> RowShard(const Layout& layout, uint32_t tensor_index, ShardPlace place, uint64_t padded_rows) {
  XORBIT_RETURN_IF_ERROR(CheckPlace(place));
  const TensorSpec& tensor = layout.tensors()[tensor_index];
  XORBIT_ASSIGN_OR_RETURN(const uint64_t row_units, RowUnits(tensor));
  const uint64_t rows = tensor.shape.front();
  if (padded_rows == 0) padded_rows = DivideRoundUp(rows, uint64_t{place.rank_count}) * place.rank_count;
  if (padded_rows < rows || padded_rows % place.rank_count != 0) {
    return CannotCut(tensor, "its " + std::to_string(rows) + " rows are padded to " + std::to_string(padded_rows) + ", for " +
                                 std::to_string(place.rank_count) + " ranks");
  }
  const uint64_t share = padded_rows / place.rank_count;
  const uint64_t begin = std::min(rows, place.rank * share);
  return Range(tensor_index, begin * row_units, std::min(rows, begin + share) * row_units);
}

Result<std::optional<Part>> ColumnShard(const Layout& layout, uint32_t tensor_index, ShardPlace place) {
  XORBIT_RETURN_IF_ERROR(CheckPlace(place));
  const TensorSpec& tensor = layout.tensors()[tensor_index];
  if (tensor.shape.empty()) return CannotCut(tensor, "it is a scalar");
  if (tensor.unit_count() == 0) return std::optional<Part>();
  // A matrix of `lines` rows; a vector is one.
  uint64_t lines = 1;
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) lines *= tensor.shape[i];
  const uint64_t line_units = tensor.unit_count() / lines;
  if (tensor.unit_count() % lines != 0 || line_units % place.rank_count != 0) {
    return CannotCut(tensor, "its last dimension is not " + std::to_string(place.rank_count) + " times whole units");
  }
  const uint64_t width = line_units / place.rank_count;
  std::vector<Digit> digits;
  if (lines > 1) digits.push_back({lines, line_units});
  digits.push_back({width, 1});
  return std::optional<Part>(Part{tensor_index, place.rank * width, std::move(digits)});
}

}  // namespace xorbit
