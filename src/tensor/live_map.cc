#include "tensor/live_map.h"

#include <algorithm>
#include <utility>

namespace xorbit {

uint32_t LiveBitsOf(Cast cast, uint32_t granule_bits) {
  switch (cast) {
    case Cast::kCopy:
      break;
    case Cast::kBf16ToF32:
      return 32;
    case Cast::kF32ToBf16:
      return 16;
  }
  return granule_bits;
}

bool LiveMap::is_absent(uint32_t group) const {
  return std::binary_search(absent_groups_.begin(), absent_groups_.end(), group);
}

std::span<const Piece> LiveMap::track(uint32_t tensor_index, uint32_t track) const {
  const uint32_t at = tensor_tracks_[tensor_index] + track;
  return pieces().subspan(track_starts_[at], track_starts_[at + 1] - track_starts_[at]);
}

std::span<const Piece> LiveMap::pieces_of(uint32_t tensor_index) const {
  const uint32_t first = track_starts_[tensor_tracks_[tensor_index]];
  return pieces().subspan(first, track_starts_[tensor_tracks_[tensor_index + 1]] - first);
}

std::span<const ShadowBinding> LiveMap::shadows_of(uint32_t tensor_index) const {
  return std::ranges::equal_range(shadows_, tensor_index, {},
                                  [](const ShadowBinding& shadow) { return shadow.piece.tensor_index; });
}

std::span<const DerivedBinding> LiveMap::derived_of(uint32_t tensor_index) const {
  return std::ranges::equal_range(derived_, tensor_index, {}, &DerivedBinding::tensor_index);
}

std::optional<size_t> LiveMap::kept_index_of(uint32_t tensor_index) const {
  const auto at = std::ranges::lower_bound(kept_tensors_, tensor_index);
  if (at == kept_tensors_.end() || *at != tensor_index) return std::nullopt;
  return static_cast<size_t>(at - kept_tensors_.begin());
}

std::optional<uint32_t> LiveMap::alias_of(uint32_t tensor_index) const {
  if (aliases_.empty()) return std::nullopt;
  const auto at = std::lower_bound(aliases_.begin(), aliases_.end(), tensor_index,
                                   [](const AliasBinding& alias, uint32_t index) { return alias.tensor_index < index; });
  if (at == aliases_.end() || at->tensor_index != tensor_index) return std::nullopt;
  return at->of_tensor_index;
}

LiveMap CanonicalMap(const Layout& layout) {
  LiveMapSpec spec;
  ClassTable classes;
  for (uint32_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    spec.regions.push_back({tensor.name, tensor.byte_count});
    if (tensor.byte_count == 0) continue;
    PieceClass shape{.granule_bits = 8 * UnitBytesOf(tensor.dtype), .digit_count = 1, .digits = {}};
    shape.digits[0] = {tensor.unit_count(), 1, 1};
    spec.pieces.push_back({.tensor_index = i, .class_index = classes.Intern(shape), .region_index = i});
  }
  spec.classes = std::move(classes).Take();
  return LiveMap::Make(layout, std::move(spec)).value();
}

}  // namespace xorbit
