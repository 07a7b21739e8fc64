// The canonical layout: every tensor of a served checkpoint, ordered by the bytes of its UTF-8 name, whatever file holds it.
// Tensor indices, owners, deltas and digests all refer to this order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "base/status.h"
#include "tensor/dtype.h"

namespace xorbit {

struct TensorSpec {
  std::string name;  // UTF-8
  Dtype dtype = Dtype::kU8;
  std::vector<uint64_t> shape;  // empty: a scalar, one element
  uint64_t byte_count = 0;      // product of shape x bits / 8; Layout::Make fills it in
  uint32_t group = 0;           // presence group: index into Layout::groups()
  bool frozen = false;          // no owner may change it; covered by the state digest all the same

  uint64_t unit_count() const { return byte_count / UnitBytesOf(dtype); }
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// Immutable after Make. Safe to share between threads.
class Layout {
 public:
  static constexpr uint32_t kMaxRank = 64;

  Layout() = default;

  // Sorts the tensors. Refuses duplicate names, names that are not UTF-8, overflowing shapes, element counts that do not fill
  // whole bytes, ranks over kMaxRank and group indices outside `groups`.
  static Result<Layout> Make(std::vector<TensorSpec> tensors, std::vector<std::string> groups = {"model"});

  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  const std::vector<std::string>& groups() const { return groups_; }
  uint64_t total_bytes() const { return total_bytes_; }
  std::optional<uint32_t> Find(std::string_view name) const;
  // Indices of the tensors of this unit (1, 2, 4 or 8 bytes) that are not empty: those that a segment can hold parts of.
  const std::vector<uint32_t>& TensorsOfUnit(uint32_t unit_bytes) const;

  // SHA-256("xorbit-layout-1\0" || per tensor: u32 name length, name, u8 dtype code, u32 rank, u64 dims), little-endian.
  // Groups and frozen marks are policy, not layout: they do not enter.
  const Sha256Digest& digest() const { return digest_; }

 private:
  std::vector<TensorSpec> tensors_;
  std::vector<std::string> groups_;
  std::array<std::vector<uint32_t>, 4> tensors_of_unit_;  // by the unit's binary logarithm
  uint64_t total_bytes_ = 0;
  Sha256Digest digest_{};
};

// Bytes of a tensor of this dtype and shape; kCorrupt if the product overflows or does not fill whole bytes.
Result<uint64_t> ByteCountOf(Dtype dtype, const std::vector<uint64_t>& shape);

// kRefused, saying how they differ, unless both hold the same tensors.
Status RequireSameLayout(const Layout& a, std::string_view name_of_a, const Layout& b, std::string_view name_of_b);

// One line that says how two layouts differ (first difference in name order), empty if they are equal.
std::string DescribeDifference(const Layout& a, std::string_view name_of_a, const Layout& b, std::string_view name_of_b);

}  // namespace xorbit
