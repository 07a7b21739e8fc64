// A segment whose old values and changes follow the formula, as the encoder reads it.
#pragma once

#include <algorithm>
#include <memory>

#include "backend/cuda/testing/formula.h"
#include "change/change_source.h"

namespace xorbit::cuda::testing {

class FormulaSource final : public ChangeSource {
 public:
  // Byte 0 of the segment is the formula's byte `first_byte`, a multiple of a cell, as is the segment's size.
  FormulaSource(const ChangeFormula& formula, uint64_t first_byte, uint32_t unit_bytes, uint64_t element_count)
      : formula_(formula), first_cell_(first_byte / kCellBytes), unit_bytes_(unit_bytes), element_count_(element_count) {}
  uint32_t unit_bytes() const override { return unit_bytes_; }
  uint64_t element_count() const override { return element_count_; }
  bool has_values() const override { return true; }
  std::unique_ptr<ChangeCursor> Open(uint64_t first_window, uint64_t /*window_count*/) const override {
    return std::make_unique<Cursor>(*this, first_window);
  }

 private:
  class Cursor final : public ChangeCursor {
   public:
    Cursor(const FormulaSource& source, uint64_t first_window) : source_(&source), window_(first_window) {}

    Status Next(WindowChanges* changes) override {
      const uint64_t first = window_ * kWindowElements * source_->unit_bytes_;
      const uint64_t count = WindowElementsAt(source_->element_count_, window_++) * source_->unit_bytes_;
      changes->count = 0;
      for (uint64_t at = 0; at < count; at += kCellBytes) {
        const uint64_t cell = source_->first_cell_ + (first + at) / kCellBytes;
        const bool maybe = source_->formula_.cell_threshold == 0 || CellChanges(source_->formula_, ChangeHash(cell));
        if (maybe) AddCell(cell, at, changes);
      }
      return {};
    }

   private:
    void AddCell(uint64_t cell, uint64_t at, WindowChanges* changes) const {
      const uint32_t unit_bytes = source_->unit_bytes_;
      const Cell change = ChangeOfCell(source_->formula_, cell);
      const Cell old = OldCell(source_->formula_, cell);
      const auto* change_bytes = reinterpret_cast<const uint8_t*>(change.words);
      const auto* old_bytes = reinterpret_cast<const uint8_t*>(old.words);
      for (uint64_t i = 0; i < kCellBytes; i += unit_bytes) {
        const auto is_zero = [](uint8_t byte) { return byte == 0; };
        if (std::all_of(change_bytes + i, change_bytes + i + unit_bytes, is_zero)) continue;
        const uint32_t index = changes->count++;
        changes->positions[index] = static_cast<uint16_t>((at + i) / unit_bytes);
        std::copy_n(change_bytes + i, unit_bytes, changes->xors.data() + uint64_t{index} * unit_bytes);
        std::copy_n(old_bytes + i, unit_bytes, changes->olds.data() + uint64_t{index} * unit_bytes);
      }
    }

    const FormulaSource* source_;
    uint64_t window_;
  };

  ChangeFormula formula_;
  uint64_t first_cell_;
  uint32_t unit_bytes_;
  uint64_t element_count_;
};

}  // namespace xorbit::cuda::testing
