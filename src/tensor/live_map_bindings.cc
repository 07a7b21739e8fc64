// What LiveMapBuilder does about tensors that are not, or not only, placed by pieces: shadows, aliases, derived ones.
#include <algorithm>

#include "tensor/live_map_builder.h"

namespace xorbit {

Status LiveMapBuilder::TakeShadows() {
  map_.shadows_ = std::move(spec_.shadows);
  std::sort(map_.shadows_.begin(), map_.shadows_.end(), [](const ShadowBinding& a, const ShadowBinding& b) {
    return std::tuple(CanonicalOrder(a.piece), a.cast) < std::tuple(CanonicalOrder(b.piece), b.cast);
  });
  for (const ShadowBinding& shadow : map_.shadows_) {
    XORBIT_ASSIGN_OR_RETURN(const TensorSpec* tensor, CheckTensor(shadow.piece.tensor_index));
    XORBIT_RETURN_IF_ERROR(CheckIndices(*tensor, shadow.piece));
    const uint32_t granule_bits = map_.classes_[shadow.piece.class_index].granule_bits;
    if (granule_bits != UnitBitsOf(*tensor)) return Fail(*tensor, "has a shadow whose granule is not its unit");
    if (shadow.cast == Cast::kBf16ToF32 && tensor->dtype != Dtype::kBF16)
      return Fail(*tensor, "is cast from BF16 but is not BF16");
    if (shadow.cast == Cast::kF32ToBf16 && tensor->dtype != Dtype::kF32)
      return Fail(*tensor, "is cast from F32 but is not F32");
    XORBIT_RETURN_IF_ERROR(CheckPiece(*tensor, shadow.piece, LiveBitsOf(shadow.cast, granule_bits)));
    if (!map_.pieces_of(shadow.piece.tensor_index).empty()) return Fail(*tensor, "has both pieces and a shadow");
    Keep(shadow.piece.tensor_index);
  }
  return {};
}

bool LiveMapBuilder::HasPlace(uint32_t tensor_index) const {
  return !map_.pieces_of(tensor_index).empty() ||
         std::binary_search(map_.kept_tensors_.begin(), map_.kept_tensors_.end(), tensor_index);
}

Status LiveMapBuilder::TakeAliases() {
  map_.aliases_ = std::move(spec_.aliases);
  std::sort(map_.aliases_.begin(), map_.aliases_.end(), [](const AliasBinding& a, const AliasBinding& b) {
    return std::tie(a.tensor_index, a.of_tensor_index) < std::tie(b.tensor_index, b.of_tensor_index);
  });
  for (size_t i = 0; i < map_.aliases_.size(); ++i) {
    const AliasBinding& alias = map_.aliases_[i];
    XORBIT_ASSIGN_OR_RETURN(const TensorSpec* tensor, CheckTensor(alias.tensor_index));
    XORBIT_ASSIGN_OR_RETURN(const TensorSpec* target, CheckTensor(alias.of_tensor_index));
    if (i > 0 && map_.aliases_[i - 1].tensor_index == alias.tensor_index) return Fail(*tensor, "is an alias of two tensors");
    if (HasPlace(alias.tensor_index)) return Fail(*tensor, "is an alias and has a place of its own");
    if (tensor->dtype != target->dtype || tensor->byte_count != target->byte_count) {
      return Fail(*tensor, "is an alias of " + Quoted(target->name) + ", which has another dtype or size");
    }
    if (!HasPlace(alias.of_tensor_index))
      return Fail(*tensor, "is an alias of " + Quoted(target->name) + ", which has no place");
  }
  return {};
}

Status LiveMapBuilder::TakeDerived() {
  map_.derived_ = std::move(spec_.derived);
  const auto key = [](const DerivedBinding& binding) { return std::tie(binding.tensor_index, binding.callback); };
  std::sort(map_.derived_.begin(), map_.derived_.end(),
            [&](const DerivedBinding& a, const DerivedBinding& b) { return key(a) < key(b); });
  const std::vector<uint32_t> shadowed = map_.kept_tensors_;
  for (size_t i = 0; i < map_.derived_.size(); ++i) {
    const DerivedBinding& binding = map_.derived_[i];
    XORBIT_ASSIGN_OR_RETURN(const TensorSpec* tensor, CheckTensor(binding.tensor_index));
    if (binding.callback.empty()) return Fail(*tensor, "is derived by a callback without a name");
    const bool again = i > 0 && map_.derived_[i - 1].tensor_index == binding.tensor_index;
    if (again && map_.derived_[i - 1].callback == binding.callback) return Fail(*tensor, "names one callback twice");
    if (again && map_.derived_[i - 1].counted != binding.counted) return Fail(*tensor, "is derived both counted and not");
    if (!map_.alias_of(binding.tensor_index) && map_.pieces_of(binding.tensor_index).empty() &&
        !std::binary_search(shadowed.begin(), shadowed.end(), binding.tensor_index)) {
      Keep(binding.tensor_index);
    }
  }
  std::sort(map_.kept_tensors_.begin(), map_.kept_tensors_.end());
  return {};
}

void LiveMapBuilder::Keep(uint32_t tensor_index) {
  if (map_.kept_tensors_.empty() || map_.kept_tensors_.back() != tensor_index) map_.kept_tensors_.push_back(tensor_index);
}

}  // namespace xorbit
