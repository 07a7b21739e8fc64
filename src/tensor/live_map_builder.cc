#include "tensor/live_map_builder.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <string_view>

#include "base/checked_math.h"

namespace xorbit {
namespace {

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

Status LiveMapBuilder::CheckSizes() const {
  if (layout_.tensors().size() > kMaxLivePieces || spec_.regions.size() > kMaxLivePieces ||
      spec_.classes.size() > kMaxLivePieces || spec_.pieces.size() > kMaxLivePieces || spec_.shadows.size() > kMaxLivePieces ||
      spec_.aliases.size() > kMaxLivePieces || spec_.derived.size() > kMaxLivePieces) {
    return UnsupportedError("the live map has more than " + std::to_string(kMaxLivePieces) + " entries of one kind");
  }
  return {};
}

Status LiveMapBuilder::TakeGroups() {
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
Status LiveMapBuilder::TakeRegions() {
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
Status LiveMapBuilder::TakeClasses() {
  for (size_t i = 0; i < spec_.classes.size(); ++i) {
    auto shape = Normalised(spec_.classes[i]);
    if (!shape.ok()) return shape.status().WithContext(NameOfClass(i));
    map_.classes_.push_back(*shape);
  }
  return {};
}

std::string LiveMapBuilder::NameOfClass(size_t index) const {
  const std::string name = "class " + std::to_string(index) + " of the live map";
  const auto of_class = [index](const Piece& piece) { return piece.class_index == index; };
  auto piece = std::find_if(spec_.pieces.begin(), spec_.pieces.end(), of_class);
  if (piece == spec_.pieces.end() || piece->tensor_index >= layout_.tensors().size()) return name;
  return name + ", of tensor " + Quoted(layout_.tensors()[piece->tensor_index].name);
}

Result<const TensorSpec*> LiveMapBuilder::CheckTensor(uint32_t tensor_index) const {
  if (tensor_index >= layout_.tensors().size()) {
    return CorruptError("the live map names tensor " + std::to_string(tensor_index) + ", which the layout does not have");
  }
  const TensorSpec& tensor = layout_.tensors()[tensor_index];
  if (map_.is_absent(tensor.group)) {
    return Fail(tensor, "has a place although its presence group " + Quoted(layout_.groups()[tensor.group]) + " is absent");
  }
  return &tensor;
}

Status LiveMapBuilder::CheckPiece(const TensorSpec& tensor, const Piece& piece, uint32_t live_bits) const {
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

Status LiveMapBuilder::CheckIndices(const TensorSpec& tensor, const Piece& piece) const {
  if (piece.class_index >= map_.classes_.size()) return Fail(tensor, "has a piece of a class that is not there");
  if (piece.region_index >= map_.regions_.size()) return Fail(tensor, "has a piece in a region that is not there");
  return {};
}

Status LiveMapBuilder::TakePieces() {
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

Status LiveMapBuilder::TakeTensor(uint32_t tensor_index, std::span<const Piece> pieces) {
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
void LiveMapBuilder::CutIntoTracks(std::span<const Piece> pieces) {
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

Result<LiveMap> LiveMap::Make(const Layout& layout, LiveMapSpec spec) {
  return LiveMapBuilder(layout, std::move(spec)).Build();
}

}  // namespace xorbit
