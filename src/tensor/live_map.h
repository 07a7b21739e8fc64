// Where canonical bytes lie in live memory: what an engine did to a checkpoint when it loaded it, as far as that is a
// permutation of bits (docs/design/live-map.md).
//
// A piece places a box of a canonical tensor into a region of live memory. The box and its image are affine: digits (count,
// canonical stride, live stride) over an origin on each side, as an odometer counts. Few shapes of boxes occur, and each is
// stored once, as a class. So a tensor-parallel slice is one piece, and so is a block-scale tensor in its 128 x 4 swizzle.
//
//   canonical  [rows, 4096], columns 1024..2047     class {rows, 4096, 1024}, {1024, 1, 1}
//   live       [rows, 1024]                         piece origin 1024, live origin 0
//
// Positions and strides are counted in granules: the tensor's unit, or a divisor of it, down to 4 bits, where an engine moves
// the halves of a byte apart. Tables are flat and of fixed size, so that a device can hold the same ones.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/layout.h"
#include "tensor/piece_class.h"

namespace xorbit {

struct Piece {
  uint32_t tensor_index = 0;
  uint32_t class_index = 0;
  uint32_t region_index = 0;
  bool counted =
      true;  // false: a replica of what this or another rank counts in its digests; written and compared all the same
  uint64_t origin = 0;       // in granules of the tensor
  uint64_t live_origin = 0;  // in granules (of a shadow: elements of the result) from the region's first byte
  friend bool operator==(const Piece&, const Piece&) = default;
};
static_assert(sizeof(Piece) == 32);

// A stretch of live memory that the engine holds in one allocation, e.g. one of its parameters. Regions do not overlap.
struct LiveRegion {
  std::string name;
  uint64_t byte_count = 0;
  friend bool operator==(const LiveRegion&, const LiveRegion&) = default;
};

// How a canonical element becomes a live one where bits change; the numbers are part of no format, the names are.
enum class Cast : uint8_t {
  kCopy = 0,       // the same bits, but written from the kept copy
  kBf16ToF32 = 1,  // exact
  kF32ToBf16 = 2,  // round to nearest, ties to even; a NaN stays one
};

// Bits of the image of one granule.
uint32_t LiveBitsOf(Cast cast, uint32_t granule_bits);

// The tensor lives as values that XOR cannot update. Whoever applies keeps a canonical copy of the whole tensor, changes that,
// and in the pause casts it to where the piece says. A tensor may have several.
struct ShadowBinding {
  Cast cast = Cast::kCopy;
  Piece piece;  // its class has granules of the tensor's unit
  friend bool operator==(const ShadowBinding&, const ShadowBinding&) = default;
};

// Tied weights: the live tensor of another name is this one's too. Changes are checked to be equal, and written once, through
// `of_tensor_index`. Whatever counts an element of that tensor counts the same element of this one.
struct AliasBinding {
  uint32_t tensor_index = 0;
  uint32_t of_tensor_index = 0;
  friend bool operator==(const AliasBinding&, const AliasBinding&) = default;
};

// The engine holds something that it computes from this tensor: its callback of this name has to run after a change. A tensor
// may be placed by pieces or shadows besides; if it is not, whoever applies keeps a canonical copy for the callback.
struct DerivedBinding {
  uint32_t tensor_index = 0;
  std::string callback;
  bool counted = true;  // of a kept copy only
  friend bool operator==(const DerivedBinding&, const DerivedBinding&) = default;
};

// What one rank declares. Any order.
struct LiveMapSpec {
  uint64_t epoch = 0;
  std::vector<uint32_t> absent_groups;  // presence groups that this receiver lacks
  std::vector<LiveRegion> regions;
  std::vector<PieceClass> classes;
  std::vector<Piece> pieces;
  std::vector<ShadowBinding> shadows;
  std::vector<AliasBinding> aliases;
  std::vector<DerivedBinding> derived;
};

inline constexpr uint64_t kMaxLivePieces = uint64_t{1} << 24;  // pieces and shadows; also regions and classes

// One rank's live memory of one layout. Immutable; safe to share between threads.
//
// The pieces of a tensor are divided into tracks: those of one track have disjoint hulls (from their first canonical granule
// to their last) and ascend, so that one binary search finds the only piece that may hold a granule. Most tensors have one
// track; copies and interleaved boxes make more.
class LiveMap {
 public:
  LiveMap() = default;

  // Checks every index, digit and bound and sorts the pieces. Refused, naming tensor and reason: kCorrupt what does not fit the
  // layout or its region or is not nested, kUnsupported more than kMaxLiveDigits digits after normalisation. What takes all
  // pieces together is proven by live_proofs.h.
  static Result<LiveMap> Make(const Layout& layout, LiveMapSpec spec);

  // Changes when the engine moves weights, sleeps or reallocates. What was prepared for one epoch must not be applied in
  // another.
  uint64_t epoch() const { return epoch_; }
  const Sha256Digest& layout_digest() const { return layout_digest_; }
  bool is_absent(uint32_t group) const;

  std::span<const LiveRegion> regions() const { return regions_; }
  std::span<const PieceClass> classes() const { return classes_; }
  const PieceClass& class_of(const Piece& piece) const { return classes_[piece.class_index]; }

  // All pieces, by tensor, then track, then origin.
  std::span<const Piece> pieces() const { return pieces_; }
  // Track t holds pieces [track_starts()[t], track_starts()[t + 1]); tensor i has tracks [first_track(i), first_track(i + 1)).
  std::span<const uint32_t> track_starts() const { return track_starts_; }
  std::span<const uint32_t> tensor_tracks() const { return tensor_tracks_; }  // tensor count + 1 entries
  uint32_t track_count(uint32_t tensor_index) const { return tensor_tracks_[tensor_index + 1] - tensor_tracks_[tensor_index]; }
  std::span<const Piece> track(uint32_t tensor_index, uint32_t track) const;
  std::span<const Piece> pieces_of(uint32_t tensor_index) const;
  // Granule of the tensor's pieces; its unit if it has none.
  uint32_t granule_bits(uint32_t tensor_index) const { return granule_bits_[tensor_index]; }

  std::span<const ShadowBinding> shadows() const { return shadows_; }   // by tensor, then origin
  std::span<const AliasBinding> aliases() const { return aliases_; }    // by tensor
  std::span<const DerivedBinding> derived() const { return derived_; }  // by tensor, then callback
  std::span<const ShadowBinding> shadows_of(uint32_t tensor_index) const;
  std::span<const DerivedBinding> derived_of(uint32_t tensor_index) const;
  std::optional<uint32_t> alias_of(uint32_t tensor_index) const;  // the tensor that is written instead
  // Tensors of which whoever applies keeps a canonical copy, ascending: those with shadows, and derived ones without a place.
  std::span<const uint32_t> kept_tensors() const { return kept_tensors_; }
  std::optional<size_t> kept_index_of(uint32_t tensor_index) const;  // in kept_tensors()

 private:
  friend class LiveMapBuilder;

  uint64_t epoch_ = 0;
  Sha256Digest layout_digest_{};
  std::vector<uint32_t> absent_groups_;
  std::vector<LiveRegion> regions_;
  std::vector<PieceClass> classes_;
  std::vector<Piece> pieces_;
  std::vector<uint32_t> track_starts_;
  std::vector<uint32_t> tensor_tracks_;
  std::vector<uint8_t> granule_bits_;
  std::vector<ShadowBinding> shadows_;
  std::vector<AliasBinding> aliases_;
  std::vector<DerivedBinding> derived_;
  std::vector<uint32_t> kept_tensors_;
};

// Live memory that is laid out as the checkpoint: region i is tensor i, named like it, and one piece fills it.
LiveMap CanonicalMap(const Layout& layout);

}  // namespace xorbit
