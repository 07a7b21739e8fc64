#include "change/list_source.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <span>
#include <utility>

#include "base/unit.h"

namespace xorbit {
namespace {

class ListCursor : public ChangeCursor {
 public:
  ListCursor(const ListSource& source, std::span<const ElementChange> changes, uint64_t window_index)
      : source_(&source), changes_(changes), window_index_(window_index) {
    at_ = static_cast<size_t>(
        std::lower_bound(changes.begin(), changes.end(), window_index * kWindowElements,
                         [](const ElementChange& change, uint64_t element) { return change.element < element; }) -
        changes.begin());
  }

  Status Next(WindowChanges* changes) override {
    const uint64_t first = window_index_++ * kWindowElements;
    const uint32_t unit_bytes = source_->unit_bytes();
    changes->count = 0;
    for (; at_ < changes_.size() && changes_[at_].element - first < kWindowElements; ++at_, ++changes->count) {
      const ElementChange& change = changes_[at_];
      changes->positions[changes->count] = static_cast<uint16_t>(change.element - first);
      std::memcpy(changes->xors.data() + size_t{changes->count} * unit_bytes, &change.xor_bits, unit_bytes);
      if (!source_->has_values()) continue;
      std::memcpy(changes->olds.data() + size_t{changes->count} * unit_bytes, &change.old_bits, unit_bytes);
    }
    return {};
  }

 private:
  const ListSource* source_;
  std::span<const ElementChange> changes_;
  uint64_t window_index_;
  size_t at_ = 0;
};

}  // namespace

ListSource::ListSource(uint32_t unit_bytes, uint64_t element_count, std::vector<ElementChange> changes, bool has_values)
    : unit_bytes_(unit_bytes), element_count_(element_count), changes_(std::move(changes)), has_values_(has_values) {
  for (size_t i = 0; i < changes_.size(); ++i) {
    assert(changes_[i].element < element_count_ && changes_[i].xor_bits != 0);
    assert(i == 0 || changes_[i - 1].element < changes_[i].element);
  }
}

std::unique_ptr<ChangeCursor> ListSource::Open(uint64_t first_window, uint64_t window_count) const {
  assert(first_window + window_count <= WindowCountOf(element_count_));
  static_cast<void>(window_count);
  return std::make_unique<ListCursor>(*this, changes_, first_window);
}

Result<std::vector<ElementChange>> ReadAllChanges(const ChangeSource& source) {
  const uint32_t unit_bytes = source.unit_bytes();
  const uint64_t window_count = WindowCountOf(source.element_count());
  const auto cursor = source.Open(0, window_count);
  WindowChanges window;
  window.Reserve(unit_bytes, source.has_values());
  std::vector<ElementChange> all;
  for (uint64_t w = 0; w < window_count; ++w) {
    XORBIT_RETURN_IF_ERROR(cursor->Next(&window));
    for (uint32_t i = 0; i < window.count; ++i) {
      const uint64_t at = uint64_t{i} * unit_bytes;
      const uint64_t old_bits = source.has_values() ? UnitBits(window.olds.data() + at, unit_bytes) : 0;
      all.push_back({w * kWindowElements + window.positions[i], old_bits, UnitBits(window.xors.data() + at, unit_bytes)});
    }
  }
  return all;
}

}  // namespace xorbit
