#include "tensor/layout.h"

#include <algorithm>
#include <bit>

#include "base/checked_math.h"
#include "base/text.h"

namespace xorbit {
namespace {

Sha256Digest ComputeDigest(const std::vector<TensorSpec>& tensors) {
  Sha256 hash;
  hash.Update(AsBytes(std::string_view("xorbit-layout-1\0", 16)));
  Buffer record;
  for (const TensorSpec& tensor : tensors) {
    record.clear();
    AppendLe<uint32_t>(record, static_cast<uint32_t>(tensor.name.size()));
    AppendBytes(record, AsBytes(tensor.name));
    AppendLe<uint8_t>(record, static_cast<uint8_t>(tensor.dtype));
    AppendLe<uint32_t>(record, static_cast<uint32_t>(tensor.shape.size()));
    for (const uint64_t dim : tensor.shape) AppendLe<uint64_t>(record, dim);
    hash.Update(record);
  }
  return hash.Finish();
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace

Result<uint64_t> ByteCountOf(Dtype dtype, const std::vector<uint64_t>& shape) {
  uint64_t element_count = 1;
  for (const uint64_t dim : shape) {
    const auto product = CheckedMul(element_count, dim);
    if (!product) return CorruptError("shape " + ShapeText(shape) + " has more than 2^64 elements");
    element_count = *product;
  }
  const auto bits = CheckedMul(element_count, BitsOf(dtype));
  if (!bits) return CorruptError("shape " + ShapeText(shape) + " has more than 2^64 bits");
  if (*bits % 8 != 0) {
    return CorruptError("shape " + ShapeText(shape) + " of " + std::string(NameOf(dtype)) + " does not fill whole bytes");
  }
  return *bits / 8;
}

Result<Layout> Layout::Make(std::vector<TensorSpec> tensors, std::vector<std::string> groups) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorSpec& a, const TensorSpec& b) { return a.name < b.name; });
  Layout layout;
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorSpec& tensor = tensors[i];
    if (i > 0 && tensors[i - 1].name == tensor.name) return CorruptError("two tensors are named " + Quoted(tensor.name));
    if (tensor.name.size() > UINT32_MAX) return CorruptError("a tensor name is longer than 4 GiB");
    if (!IsValidUtf8(tensor.name)) return CorruptError("tensor name " + Quoted(tensor.name) + " is not valid UTF-8");
    if (tensor.shape.size() > kMaxRank) return CorruptError("tensor " + Quoted(tensor.name) + " has more than 64 dimensions");
    if (tensor.group >= groups.size())
      return CorruptError("tensor " + Quoted(tensor.name) + " names a presence group that is not declared");
    auto byte_count = ByteCountOf(tensor.dtype, tensor.shape);
    if (!byte_count.ok()) return byte_count.status().WithContext("tensor " + Quoted(tensor.name));
    tensor.byte_count = *byte_count;
    const auto total = CheckedAdd(layout.total_bytes_, tensor.byte_count);
    if (!total) return CorruptError("the tensors add up to more than 2^64 bytes");
    layout.total_bytes_ = *total;
  }
  if (tensors.size() > UINT32_MAX) return CorruptError("more than 2^32 tensors");
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].byte_count == 0) continue;
    layout.tensors_of_unit_[static_cast<size_t>(std::countr_zero(UnitBytesOf(tensors[i].dtype)))].push_back(i);
  }
  layout.digest_ = ComputeDigest(tensors);
  layout.tensors_ = std::move(tensors);
  layout.groups_ = std::move(groups);
  return layout;
}

const std::vector<uint32_t>& Layout::TensorsOfUnit(uint32_t unit_bytes) const {
  assert(std::has_single_bit(unit_bytes) && unit_bytes <= 8);
  return tensors_of_unit_[static_cast<size_t>(std::countr_zero(unit_bytes))];
}

std::optional<uint32_t> Layout::Find(std::string_view name) const {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const TensorSpec& tensor, std::string_view wanted) { return tensor.name < wanted; });
  if (at == tensors_.end() || at->name != name) return std::nullopt;
  return static_cast<uint32_t>(at - tensors_.begin());
}

std::string DescribeDifference(const Layout& a, std::string_view name_of_a, const Layout& b, std::string_view name_of_b) {
  size_t i = 0;
  size_t j = 0;
  while (i < a.tensors().size() || j < b.tensors().size()) {
    const TensorSpec* in_a = i < a.tensors().size() ? &a.tensors()[i] : nullptr;
    const TensorSpec* in_b = j < b.tensors().size() ? &b.tensors()[j] : nullptr;
    if (in_b == nullptr || (in_a != nullptr && in_a->name < in_b->name)) {
      return "tensor " + Quoted(in_a->name) + " is in " + std::string(name_of_a) + " but not in " + std::string(name_of_b);
    }
    if (in_a == nullptr || in_b->name < in_a->name) {
      return "tensor " + Quoted(in_b->name) + " is in " + std::string(name_of_b) + " but not in " + std::string(name_of_a);
    }
    if (in_a->dtype != in_b->dtype || in_a->shape != in_b->shape) {
      return "tensor " + Quoted(in_a->name) + " is " + std::string(NameOf(in_a->dtype)) + " " + ShapeText(in_a->shape) +
             " in " + std::string(name_of_a) + " but " + std::string(NameOf(in_b->dtype)) + " " + ShapeText(in_b->shape) +
             " in " + std::string(name_of_b);
    }
    ++i;
    ++j;
  }
  return "";
}

Status RequireSameLayout(const Layout& a, std::string_view name_of_a, const Layout& b, std::string_view name_of_b) {
  if (a.digest() == b.digest()) return {};
  return RefusedError("the layouts differ: " + DescribeDifference(a, name_of_a, b, name_of_b));
}

}  // namespace xorbit
