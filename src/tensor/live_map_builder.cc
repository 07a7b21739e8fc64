// LiveMap::Make: checks one rank's declaration entry by entry and sorts it into the tables that search needs.
#include "tensor/live_map.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/checked_math.h"
#include "base/text.h"

namespace xorbit {
namespace {

uint32_t UnitBitsOf(const TensorSpec& tensor) { return 8 * UnitBytesOf(tensor.dtype); }

auto CanonicalOrder(const Piece& piece) {
  return std::tuple(piece.tensor_index, piece.origin, piece.region_index, piece.live_origin, piece.class_index, !piece.counted);
}

// Granules of this many bits in so many bytes; the largest number if there are more than 2^64.
uint64_t GranulesIn(uint64_t byte_count, uint32_t granule_bits) {
  if (granule_bits >= 8) return byte_count / (granule_bits / 8);
  return CheckedMul(byte_count, 2).value_or(UINT64_MAX);
}

bool Fits(uint64_t origin, uint64_t extent, uint64_t limit) {
  const auto end = CheckedAdd(origin, extent);
  return end && *end <= limit;
}

}  // namespace

class LiveMapBuilder {
 public:
  LiveMapBuilder(const Layout& layout, LiveMapSpec spec) : layout_(layout), spec_(std::move(spec)) {}

  Result<LiveMap> Build() {
    map_.epoch_ = spec_.epoch;
    map_.layout_digest_ = layout_.digest();
    XORBIT_RETURN_IF_ERROR(CheckSizes());
    XORBIT_RETURN_IF_ERROR(TakeGroups());
    XORBIT_RETURN_IF_ERROR(TakeRegions());
    XORBIT_RETURN_IF_ERROR(TakeClasses());
    XORBIT_RETURN_IF_ERROR(TakePieces());
    XORBIT_RETURN_IF_ERROR(TakeShadows());
    XORBIT_RETURN_IF_ERROR(TakeAliases());
    XORBIT_RETURN_IF_ERROR(TakeDerived());
    return std::move(map_);
  }

 private:
  Status CheckSizes() const {
    if (layout_.tensors().size() > kMaxLivePieces || spec_.regions.size() > kMaxLivePieces ||
        spec_.classes.size() > kMaxLivePieces || spec_.pieces.size() > kMaxLivePieces ||
        spec_.shadows.size() > kMaxLivePieces || spec_.aliases.size() > kMaxLivePieces ||
        spec_.derived.size() > kMaxLivePieces) {
      return UnsupportedError("the live map has more than " + std::to_string(kMaxLivePieces) + " entries of one kind");
    }
    return {};
  }

  Status TakeGroups() {
    map_.absent_groups_ = std::move(spec_.absent_groups);
    std::vector<uint32_t>& groups = map_.absent_groups_;
    std::sort(groups.begin(), groups.end());
    if (std::adjacent_find(groups.begin(), groups.end()) != groups.end()) {
      return CorruptError("the live map declares a presence group absent twice");
    }
    if (!groups.empty() && groups.back() >= layout_.groups().size()) {
      return CorruptError("the live map declares a presence group absent that the layout does not have");
    }
    return {};
  }

  // The engine's memory is found by name.
  Status TakeRegions() {
    map_.regions_ = std::move(spec_.regions);
    std::vector<std::string_view> names;
    names.reserve(map_.regions_.size());
    for (const LiveRegion& region : map_.regions_) names.emplace_back(region.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice == names.end()) return {};
    return CorruptError("the live map has two regions " + Quoted(*twice));
  }

  // A class without a piece is checked all the same; its number is all there is to name.
  Status TakeClasses() {
    for (size_t i = 0; i < spec_.classes.size(); ++i) {
      auto shape = Normalised(spec_.classes[i]);
      if (!shape.ok()) return shape.status().WithContext(NameOfClass(i));
      map_.classes_.push_back(*shape);
    }
    return {};
  }

  std::string NameOfClass(size_t index) const {
    const std::string name = "class " + std::to_string(index) + " of the live map";
    const auto of_class = [index](const Piece& piece) { return piece.class_index == index; };
    auto piece = std::find_if(spec_.pieces.begin(), spec_.pieces.end(), of_class);
    if (piece == spec_.pieces.end() || piece->tensor_index >= layout_.tensors().size()) return name;
    return name + ", of tensor " + Quoted(layout_.tensors()[piece->tensor_index].name);
  }

  Result<const TensorSpec*> CheckTensor(uint32_t tensor_index) const {
    if (tensor_index >= layout_.tensors().size()) {
      return CorruptError("the live map names tensor " + std::to_string(tensor_index) + ", which the layout does not have");
    }
    const TensorSpec& tensor = layout_.tensors()[tensor_index];
    if (map_.is_absent(tensor.group)) {
      return Fail(tensor, "has a place although its presence group " + Quoted(layout_.groups()[tensor.group]) + " is absent");
    }
    return &tensor;
  }

  // `live_bits`: of one granule's image.
  Status CheckPiece(const TensorSpec& tensor, const Piece& piece, uint32_t live_bits) const {
    const PieceClass& shape = map_.classes_[piece.class_index];
    if (!Fits(piece.origin, shape.canonical_extent(), GranulesIn(tensor.byte_count, shape.granule_bits))) {
      return Fail(tensor, "has a piece that reaches past its end");
    }
    const LiveRegion& region = map_.regions_[piece.region_index];
    if (!Fits(piece.live_origin, shape.live_extent(), GranulesIn(region.byte_count, live_bits))) {
      return Fail(tensor, "has a piece that reaches past the end of region " + Quoted(region.name));
    }
    return {};
  }

  Status CheckIndices(const TensorSpec& tensor, const Piece& piece) const {
    if (piece.class_index >= map_.classes_.size()) return Fail(tensor, "has a piece of a class that is not there");
    if (piece.region_index >= map_.regions_.size()) return Fail(tensor, "has a piece in a region that is not there");
    return {};
  }

  Status TakePieces() {
    std::sort(spec_.pieces.begin(), spec_.pieces.end(),
              [](const Piece& a, const Piece& b) { return CanonicalOrder(a) < CanonicalOrder(b); });
    const auto tensor_count = static_cast<uint32_t>(layout_.tensors().size());
    map_.pieces_.reserve(spec_.pieces.size());
    map_.tensor_tracks_.reserve(tensor_count + size_t{1});
    map_.granule_bits_.reserve(tensor_count);
    map_.track_starts_.push_back(0);
    size_t at = 0;
    for (uint32_t tensor_index = 0; tensor_index < tensor_count; ++tensor_index) {
      const size_t first = at;
      while (at < spec_.pieces.size() && spec_.pieces[at].tensor_index == tensor_index) ++at;
      XORBIT_RETURN_IF_ERROR(TakeTensor(tensor_index, std::span(spec_.pieces).subspan(first, at - first)));
    }
    map_.tensor_tracks_.push_back(static_cast<uint32_t>(map_.track_starts_.size() - 1));
    if (at < spec_.pieces.size()) return CheckTensor(spec_.pieces[at].tensor_index).status();
    return {};
  }

  // Pieces of one tensor, by origin.
  Status TakeTensor(uint32_t tensor_index, std::span<const Piece> pieces) {
    const uint32_t unit_bits = UnitBitsOf(layout_.tensors()[tensor_index]);
    map_.tensor_tracks_.push_back(static_cast<uint32_t>(map_.track_starts_.size() - 1));
    map_.granule_bits_.push_back(static_cast<uint8_t>(unit_bits));
    if (pieces.empty()) return {};
    XORBIT_ASSIGN_OR_RETURN(const TensorSpec* tensor, CheckTensor(tensor_index));
    uint32_t granule_bits = 0;
    for (const Piece& piece : pieces) {
      XORBIT_RETURN_IF_ERROR(CheckIndices(*tensor, piece));
      const uint32_t own_bits = map_.classes_[piece.class_index].granule_bits;
      if (own_bits > unit_bits) return Fail(*tensor, "has granules wider than its unit");
      if (granule_bits != 0 && own_bits != granule_bits) return Fail(*tensor, "has pieces of different granules");
      granule_bits = own_bits;
      XORBIT_RETURN_IF_ERROR(CheckPiece(*tensor, piece, granule_bits));
    }
    map_.granule_bits_.back() = static_cast<uint8_t>(granule_bits);
    CutIntoTracks(pieces);
    return {};
  }

  // Each piece goes to the track that ended first, if that is before the piece begins: as few tracks as there can be.
  void CutIntoTracks(std::span<const Piece> pieces) {
    using EndAndTrack = std::pair<uint64_t, uint32_t>;
    std::priority_queue<EndAndTrack, std::vector<EndAndTrack>, std::greater<>> ends;
    std::vector<std::pair<uint32_t, uint32_t>> placed;  // track, number of the piece
    for (uint32_t i = 0; i < pieces.size(); ++i) {
      auto track = static_cast<uint32_t>(ends.size());
      if (!ends.empty() && ends.top().first <= pieces[i].origin) {
        track = ends.top().second;
        ends.pop();
      }
      ends.emplace(pieces[i].origin + map_.classes_[pieces[i].class_index].canonical_extent(), track);
      placed.emplace_back(track, i);
    }
    std::sort(placed.begin(), placed.end());
    for (size_t i = 0; i < placed.size(); ++i) {
      if (i > 0 && placed[i].first != placed[i - 1].first)
        map_.track_starts_.push_back(static_cast<uint32_t>(map_.pieces_.size()));
      map_.pieces_.push_back(pieces[placed[i].second]);
    }
    map_.track_starts_.push_back(static_cast<uint32_t>(map_.pieces_.size()));
  }

  Status TakeShadows() {
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

  bool HasPlace(uint32_t tensor_index) const {
    return !map_.pieces_of(tensor_index).empty() ||
           std::binary_search(map_.kept_tensors_.begin(), map_.kept_tensors_.end(), tensor_index);
  }

  Status TakeAliases() {
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

  Status TakeDerived() {
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

  // Called with ascending indices by each kind of binding.
  void Keep(uint32_t tensor_index) {
    if (map_.kept_tensors_.empty() || map_.kept_tensors_.back() != tensor_index) map_.kept_tensors_.push_back(tensor_index);
  }

  static Status Fail(const TensorSpec& tensor, const std::string& why) {
    return CorruptError("tensor " + Quoted(tensor.name) + " " + why);
  }

  const Layout& layout_;
  LiveMapSpec spec_;
  LiveMap map_;
};

Result<LiveMap> LiveMap::Make(const Layout& layout, LiveMapSpec spec) {
  return LiveMapBuilder(layout, std::move(spec)).Build();
}

}  // namespace xorbit
