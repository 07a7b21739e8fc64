// Changes in the form in which a diff delivers them, window by window, made beforehand: encoders are measured, not a diff, and
// the source's own cost is a copy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "change/change_source.h"
#include "change/list_source.h"

namespace xorbit {

class WindowSource final : public ChangeSource {
 public:
  WindowSource(uint32_t unit_bytes, uint64_t element_count, const std::vector<ElementChange>& changes)
      : unit_bytes_(unit_bytes), element_count_(element_count), windows_(WindowCountOf(element_count)) {
    for (const ElementChange& change : changes) {
      WindowChanges& window = windows_[change.element / kWindowElements];
      window.positions.push_back(static_cast<uint16_t>(change.element % kWindowElements));
      const auto append = [&](uint64_t bits, std::vector<uint8_t>* target) {
        for (uint32_t b = 0; b < unit_bytes; ++b) target->push_back(static_cast<uint8_t>(bits >> (8 * b)));
      };
      append(change.xor_bits, &window.xors);
      append(change.old_bits, &window.olds);
      ++window.count;
    }
  }
  uint32_t unit_bytes() const override { return unit_bytes_; }
  uint64_t element_count() const override { return element_count_; }
  bool has_values() const override { return true; }
  std::unique_ptr<ChangeCursor> Open(uint64_t first_window, uint64_t /*window_count*/) const override {
    return std::make_unique<Cursor>(&windows_[first_window]);
  }

 private:
  class Cursor final : public ChangeCursor {
   public:
    explicit Cursor(const WindowChanges* window) : window_(window) {}
    Status Next(WindowChanges* changes) override {
      changes->count = window_->count;
      std::copy(window_->positions.begin(), window_->positions.end(), changes->positions.begin());
      std::copy(window_->xors.begin(), window_->xors.end(), changes->xors.begin());
      std::copy(window_->olds.begin(), window_->olds.end(), changes->olds.begin());
      ++window_;
      return {};
    }

   private:
    const WindowChanges* window_;
  };

  uint32_t unit_bytes_;
  uint64_t element_count_;
  std::vector<WindowChanges> windows_;
};

}  // namespace xorbit
