#include "tensor/tiling.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

namespace xorbit {
namespace {

// Contiguous places of one box.
struct PlainRun {
  uint64_t begin = 0;
  uint64_t count = 0;
  uint32_t id = 0;
};

void ListRuns(const TilingBox& box, std::vector<PlainRun>* runs) {
  const uint64_t run_count = box.run_count();
  for (uint64_t index = 0; index < run_count; ++index) {
    uint64_t begin = box.origin;
    uint64_t rest = index;
    for (uint32_t i = box.digit_count - 1; i-- > 0;) {
      begin += rest % box.digits[i].count * box.digits[i].stride;
      rest /= box.digits[i].count;
    }
    runs->push_back({begin, box.run_length(), box.id});
  }
}

uint64_t ExtentFrom(const TilingBox& box, uint32_t first_digit) {
  uint64_t last = 0;
  for (uint32_t i = first_digit; i < box.digit_count; ++i) last += (box.digits[i].count - 1) * box.digits[i].stride;
  return last + 1;
}

}  // namespace

void TilingBox::Append(const Digit& digit, bool is_last) {
  assert(!is_last || digit.stride == 1);
  if (digit.count == 1 && !is_last) return;
  if (digit_count > 0) {
    Digit& before = digits[digit_count - 1];
    if (before.stride == digit.count * digit.stride) {
      before = {before.count * digit.count, digit.stride};
      return;
    }
  }
  digits[digit_count++] = digit;
}

uint64_t TilingBox::extent() const { return ExtentFrom(*this, 0); }

uint64_t TilingBox::run_count() const {
  uint64_t count = 1;
  for (uint32_t i = 0; i + 1 < digit_count; ++i) count *= digits[i].count;
  return count;
}

class TilingProof {
 public:
  TilingProof(TilingGoal goal, uint64_t* run_budget) : goal_(goal), run_budget_(run_budget) {}

  // `base` is where the space lies in the whole.
  TilingFault Prove(std::span<TilingBox> boxes, uint64_t space, uint64_t base) {
    uint64_t row = 0;  // the largest stride
    for (const TilingBox& box : boxes) {
      if (!box.is_run()) row = std::max(row, box.outer().stride);
    }
    if (row == 0) return ProveRuns(boxes, space, base);
    uint64_t phase = 0;  // where the first row begins, less one row
    if (goal_ == TilingGoal::kExact) {
      if (space % row != 0 || !FindRows(boxes, row, 0)) return Expand(boxes, space, base);
    } else if (!FindRowsAtSomePhase(boxes, row, &phase)) {
      return Expand(boxes, space, base);
    }
    std::sort(boxes.begin(), boxes.end(), [](const TilingBox& a, const TilingBox& b) {
      return a.first_row_ != b.first_row_ ? a.first_row_ < b.first_row_ : a.end_row_ < b.end_row_;
    });
    uint64_t next_row = 0;
    for (size_t i = 0; i < boxes.size(); ++i) {
      if (i > 0 && SameRows(boxes[i - 1], boxes[i])) continue;
      if (boxes[i].first_row_ < next_row) return Expand(boxes, space, base);
      if (boxes[i].first_row_ > next_row && goal_ == TilingGoal::kExact) return Missing(base + next_row * row);
      next_row = boxes[i].end_row_;
    }
    if (goal_ == TilingGoal::kExact && next_row != space / row) return Missing(base + next_row * row);
    for (TilingBox& box : boxes) KeepInner(row, phase, &box);
    for (size_t first = 0; first < boxes.size();) {
      size_t last = first;
      while (last < boxes.size() && SameRows(boxes[first], boxes[last])) ++last;
      // Modulo 2^64: a row that begins before the space holds nothing there.
      const uint64_t row_base = base + boxes[first].first_row_ * row + phase - (phase == 0 ? 0 : row);
      const TilingFault fault = Prove(boxes.subspan(first, last - first), row, row_base);
      if (fault.found()) return fault;
      first = last;
    }
    return {};
  }

 private:
  static bool SameRows(const TilingBox& a, const TilingBox& b) {
    return a.first_row_ == b.first_row_ && a.end_row_ == b.end_row_;
  }

  // Sets each box's rows, where row 0 begins at `phase` - `row` (at 0 for phase 0). False if some box is not the same in each
  // row that it touches.
  static bool FindRows(std::span<TilingBox> boxes, uint64_t row, uint64_t phase) {
    for (TilingBox& box : boxes) {
      const uint64_t shifted = Shifted(box.origin, row, phase);
      const uint64_t within_row = shifted % row;
      box.first_row_ = shifted / row;
      if (within_row + box.extent() <= row) {
        box.end_row_ = box.first_row_ + 1;
      } else if (box.is_run()) {
        if (within_row != 0 || box.run_length() % row != 0) return false;
        box.end_row_ = box.first_row_ + box.run_length() / row;
      } else {
        if (box.outer().stride != row || within_row + ExtentFrom(box, 1) > row) return false;
        box.end_row_ = box.first_row_ + box.outer().count;
      }
    }
    return true;
  }

  // Where gaps are allowed, rows may begin anywhere: at the first box that repeats in rows, or where most do.
  static bool FindRowsAtSomePhase(std::span<TilingBox> boxes, uint64_t row, uint64_t* phase) {
    uint64_t first = UINT64_MAX;
    uint64_t least = row;
    for (const TilingBox& box : boxes) {
      if (box.is_run() || box.outer().stride != row) continue;
      first = std::min(first, box.origin);
      least = std::min(least, box.origin % row);
    }
    for (const uint64_t candidate : {first % row, least}) {
      *phase = candidate;
      if (FindRows(boxes, row, candidate)) return true;
    }
    return false;
  }

  static uint64_t Shifted(uint64_t origin, uint64_t row, uint64_t phase) {
    return phase == 0 ? origin : origin + (row - phase);
  }

  // The pattern inside one of the rows that FindRows found.
  static void KeepInner(uint64_t row, uint64_t phase, TilingBox* box) {
    box->origin = Shifted(box->origin, row, phase) % row;
    if (box->is_run()) {
      box->digits[0].count = std::min(box->digits[0].count, row);
    } else if (box->outer().stride == row) {
      std::copy(box->digits.begin() + 1, box->digits.begin() + box->digit_count, box->digits.begin());
      --box->digit_count;
    }
  }

  TilingFault ProveRuns(std::span<TilingBox> boxes, uint64_t space, uint64_t base) const {
    std::sort(boxes.begin(), boxes.end(), [](const TilingBox& a, const TilingBox& b) { return a.origin < b.origin; });
    return Walk(boxes, space, base, [](const TilingBox& box) { return PlainRun{box.origin, box.run_length(), box.id}; });
  }

  // Lists every run.
  TilingFault Expand(std::span<const TilingBox> boxes, uint64_t space, uint64_t base) {
    for (const TilingBox& box : boxes) {
      if (box.run_count() > *run_budget_) return {TilingFault::Kind::kTooIrregular, base + box.origin, box.id, box.id};
      *run_budget_ -= box.run_count();
    }
    std::vector<PlainRun> runs;
    for (const TilingBox& box : boxes) ListRuns(box, &runs);
    std::sort(runs.begin(), runs.end(), [](const PlainRun& a, const PlainRun& b) { return a.begin < b.begin; });
    return Walk(runs, space, base, [](const PlainRun& run) { return run; });
  }

  // Runs by where they begin.
  template <typename Sequence, typename RunOf>
  TilingFault Walk(const Sequence& sequence, uint64_t space, uint64_t base, RunOf&& run_of) const {
    uint64_t next = 0;
    uint32_t before_id = 0;
    for (const auto& item : sequence) {
      const PlainRun run = run_of(item);
      if (run.begin < next) return {TilingFault::Kind::kTwice, base + run.begin, before_id, run.id};
      if (run.begin > next && goal_ == TilingGoal::kExact) return Missing(base + next);
      next = run.begin + run.count;
      before_id = run.id;
    }
    return next == space || goal_ == TilingGoal::kDisjoint ? TilingFault() : Missing(base + next);
  }

  static TilingFault Missing(uint64_t at) { return {TilingFault::Kind::kMissing, at, 0, 0}; }

  TilingGoal goal_;
  uint64_t* run_budget_;
};

TilingFault FindTilingFault(std::span<TilingBox> boxes, uint64_t space, TilingGoal goal, uint64_t* run_budget) {
  return TilingProof(goal, run_budget).Prove(boxes, space, 0);
}

}  // namespace xorbit
