// A plain list of changes as a ChangeSource: what tests feed to encoders and merges in place of real buffers.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "change/change_source.h"

namespace xorbit {

// One changed element of a segment. Bits are the element's little-endian bytes as a number; xor_bits is never 0.
struct ElementChange {
  uint64_t element = 0;  // in the segment
  uint64_t old_bits = 0;
  uint64_t xor_bits = 0;
  friend bool operator==(const ElementChange&, const ElementChange&) = default;
};

class ListSource : public ChangeSource {
 public:
  // `changes` ascend strictly, lie below element_count and have non-zero XORs that fit the unit. Without values the old bits
  // are ignored.
  ListSource(uint32_t unit_bytes, uint64_t element_count, std::vector<ElementChange> changes, bool has_values);

  uint32_t unit_bytes() const override { return unit_bytes_; }
  uint64_t element_count() const override { return element_count_; }
  bool has_values() const override { return has_values_; }
  std::unique_ptr<ChangeCursor> Open(uint64_t first_window, uint64_t window_count) const override;

 private:
  uint32_t unit_bytes_;
  uint64_t element_count_;
  std::vector<ElementChange> changes_;
  bool has_values_;
};

// All changes of a source, read front to back; old_bits are 0 if it has no values. For tests.
Result<std::vector<ElementChange>> ReadAllChanges(const ChangeSource& source);

}  // namespace xorbit
