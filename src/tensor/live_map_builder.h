// LiveMap::Make in steps: checks one rank's declaration entry by entry and sorts it into the tables that search needs. Bindings
// come last, because they depend on what the pieces place (live_map_bindings.cc).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "tensor/live_map.h"

namespace xorbit {

inline uint32_t UnitBitsOf(const TensorSpec& tensor) { return 8 * UnitBytesOf(tensor.dtype); }

inline auto CanonicalOrder(const Piece& piece) {
  return std::tuple(piece.tensor_index, piece.origin, piece.region_index, piece.live_origin, piece.class_index, !piece.counted);
}

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
  Status CheckSizes() const;
  Status TakeGroups();
  Status TakeRegions();
  Status TakeClasses();
  Status TakePieces();
  Status TakeShadows();
  Status TakeAliases();
  Status TakeDerived();

  std::string NameOfClass(size_t index) const;
  Result<const TensorSpec*> CheckTensor(uint32_t tensor_index) const;
  Status CheckIndices(const TensorSpec& tensor, const Piece& piece) const;
  // `live_bits`: of one granule's image.
  Status CheckPiece(const TensorSpec& tensor, const Piece& piece, uint32_t live_bits) const;
  // Pieces of one tensor, by origin.
  Status TakeTensor(uint32_t tensor_index, std::span<const Piece> pieces);
  void CutIntoTracks(std::span<const Piece> pieces);
  bool HasPlace(uint32_t tensor_index) const;
  // Called with ascending indices by each kind of binding.
  void Keep(uint32_t tensor_index);

  static Status Fail(const TensorSpec& tensor, const std::string& why) {
    return CorruptError("tensor " + Quoted(tensor.name) + " " + why);
  }

  const Layout& layout_;
  LiveMapSpec spec_;
  LiveMap map_;
};

}  // namespace xorbit
