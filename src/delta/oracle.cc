#include "delta/oracle.h"

#include <cassert>
#include <map>
#include <string>

namespace xorbit {
namespace {

// Where a segment's element lies.
struct Place {
  uint32_t tensor_index;
  uint64_t offset_bytes;
};

Place PlaceOf(const SegmentMap& map, uint64_t element) {
  const Run run = RunAt(map, element);
  return {run.tensor_index, run.tensor_element * map.unit_bytes()};
}

uint64_t BitsAt(ConstBytes tensor, uint64_t offset_bytes, uint32_t unit_bytes) {
  uint64_t bits = 0;
  for (uint32_t i = 0; i < unit_bytes; ++i) bits |= uint64_t{tensor[offset_bytes + i]} << (8 * i);
  return bits;
}

void XorAt(MutableBytes tensor, uint64_t offset_bytes, uint32_t unit_bytes, uint64_t xor_bits) {
  for (uint32_t i = 0; i < unit_bytes; ++i) tensor[offset_bytes + i] ^= static_cast<uint8_t>(xor_bits >> (8 * i));
}

}  // namespace

std::vector<ElementChange> OracleDiff(const SegmentMap& map, std::span<const ConstBytes> old_tensors,
                                      std::span<const ConstBytes> new_tensors) {
  std::vector<ElementChange> changes;
  for (uint64_t element = 0; element < map.element_count(); ++element) {
    const Place place = PlaceOf(map, element);
    const uint64_t old_bits = BitsAt(old_tensors[place.tensor_index], place.offset_bytes, map.unit_bytes());
    const uint64_t new_bits = BitsAt(new_tensors[place.tensor_index], place.offset_bytes, map.unit_bytes());
    if (old_bits != new_bits) changes.push_back({element, old_bits, old_bits ^ new_bits});
  }
  return changes;
}

Status OracleApply(const SegmentMap& map, std::span<const ElementChange> changes, std::span<const MutableBytes> tensors) {
  for (const ElementChange& change : changes) {
    const Place place = PlaceOf(map, change.element);
    if (BitsAt(tensors[place.tensor_index], place.offset_bytes, map.unit_bytes()) != change.old_bits) {
      return RefusedError("element " + std::to_string(change.element) + " does not hold the value that the change starts from");
    }
  }
  for (const ElementChange& change : changes) {
    const Place place = PlaceOf(map, change.element);
    XorAt(tensors[place.tensor_index], place.offset_bytes, map.unit_bytes(), change.xor_bits);
  }
  return {};
}

std::vector<ElementChange> OracleFold(std::span<const std::vector<ElementChange>> lists) {
  std::map<uint64_t, ElementChange> folded;
  for (const std::vector<ElementChange>& list : lists) {
    for (const ElementChange& change : list) {
      const auto [entry, is_first] = folded.try_emplace(change.element, change);
      if (!is_first) entry->second.xor_bits ^= change.xor_bits;
    }
  }
  std::vector<ElementChange> changes;
  for (const auto& [element, change] : folded) {
    if (change.xor_bits != 0) changes.push_back(change);
  }
  return changes;
}

StateDigest OracleDigest(const Layout& layout, std::span<const ConstBytes> tensors) {
  StateDigest sum;
  for (size_t i = 0; i < layout.tensors().size(); ++i) {
    assert(tensors[i].size() == layout.tensors()[i].byte_count);
    sum += DigestOfRange(TensorKeyOf(layout.tensors()[i].name), 0, tensors[i]);
  }
  return sum;
}

}  // namespace xorbit
