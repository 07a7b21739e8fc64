// The shape of a piece of a live map: an odometer that counts canonical and live places at once. Models have up to hundreds of
// thousands of pieces but few shapes, so that shapes are checked once and kept in one small table.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"

namespace xorbit {

struct LiveDigit {
  uint64_t count = 0;
  uint64_t canonical_stride = 0;  // in granules
  uint64_t live_stride = 0;       // in granules; of a shadow: in elements of the cast's result
  friend auto operator<=>(const LiveDigit&, const LiveDigit&) = default;
};

inline constexpr uint32_t kMaxLiveDigits = 8;

// In a LiveMap the digits are normalised: none counts 1 but the last, no two that could be one, and the last has strides 1 and
// 1: its count is the length of the runs that are contiguous on both sides. In a specification the last may have any strides.
struct PieceClass {
  uint32_t granule_bits = 0;  // 4, 8, 16, 32 or 64, at most the tensor's unit; of all pieces of one tensor the same
  uint32_t digit_count = 0;
  // Slowest first; each canonical stride is at least the canonical extent of the digits after it. Sorted by live stride the
  // digits are nested in the same way.
  std::array<LiveDigit, kMaxLiveDigits> digits{};

  uint64_t run_length() const { return digits[digit_count - 1].count; }
  uint64_t granule_count() const;
  uint64_t canonical_extent() const;  // granules from the first to one past the last
  uint64_t live_extent() const;
  friend auto operator<=>(const PieceClass&, const PieceClass&) = default;
};

// The class of these digits, normalised. kCorrupt for strides that are not nested (the canonical ones slowest first, the live
// ones in any order: otherwise two places could meet), counts of 0, extents over 2^64 and other granules; kUnsupported if more
// than kMaxLiveDigits remain. Messages continue a sentence that names the class.
Result<PieceClass> MakePieceClass(uint32_t granule_bits, std::span<const LiveDigit> digits);
Result<PieceClass> Normalised(const PieceClass& shape);

// Classes, each once, in the order in which they first came.
class ClassTable {
 public:
  uint32_t Intern(const PieceClass& shape);
  std::vector<PieceClass> Take() && { return std::move(classes_); }

 private:
  std::vector<PieceClass> classes_;
  std::map<PieceClass, uint32_t> index_of_;
};

}  // namespace xorbit
