// ProveCoverage: the parts of each tensor tile it (tiling.h).
#include <string>
#include <vector>

#include "base/text.h"
#include "tensor/ownership.h"
#include "tensor/tiling.h"

namespace xorbit {
namespace {

Status Describe(const TensorSpec& tensor, const TilingFault& fault) {
  const std::string element = "tensor " + Quoted(tensor.name) + ": element " + std::to_string(fault.at);
  switch (fault.kind) {
    case TilingFault::Kind::kNone:
      return {};
    case TilingFault::Kind::kMissing:
      return CorruptError(element + " is owned by nobody");
    case TilingFault::Kind::kTwice:
      return CorruptError(element + " is owned twice");
    case TilingFault::Kind::kTooIrregular:
      break;
  }
  return UnsupportedError("tensor " + Quoted(tensor.name) +
                          " is cut too irregularly to prove that every element is owned once");
}

}  // namespace

Status ProveCoverage(const Layout& layout, std::span<const SegmentMap* const> segments) {
  // Parts by tensor: count, then fill. SegmentMap has checked that each part is inside its tensor.
  const size_t tensor_count = layout.tensors().size();
  std::vector<uint64_t> begin_of(tensor_count + 1, 0);
  for (const SegmentMap* segment : segments) {
    for (const Part& part : segment->parts()) ++begin_of[part.tensor_index + 1];
  }
  for (size_t i = 0; i < tensor_count; ++i) begin_of[i + 1] += begin_of[i];
  std::vector<const Part*> parts(begin_of[tensor_count]);
  std::vector<uint64_t> fill_at(begin_of.begin(), begin_of.end() - 1);
  for (const SegmentMap* segment : segments) {
    for (const Part& part : segment->parts()) parts[fill_at[part.tensor_index]++] = &part;
  }

  uint64_t run_budget = kTilingRunLimit;
  std::vector<TilingBox> boxes;
  for (size_t i = 0; i < tensor_count; ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    boxes.clear();
    for (uint64_t at = begin_of[i]; at < begin_of[i + 1]; ++at) {
      TilingBox& box = boxes.emplace_back();
      box.origin = parts[at]->origin;
      for (const Digit& digit : parts[at]->digits) box.Append(digit, &digit == &parts[at]->digits.back());
    }
    if (tensor.frozen || tensor.byte_count == 0) {
      assert(boxes.empty());  // SegmentMap::Make refuses such parts
      continue;
    }
    XORBIT_RETURN_IF_ERROR(Describe(tensor, FindTilingFault(boxes, tensor.unit_count(), TilingGoal::kExact, &run_budget)));
  }
  return {};
}

}  // namespace xorbit
