// ProveCoverage. A tensor of a billion elements may be cut into column shards of a million runs each, so runs are not listed:
// the proof works on the parts' digits.
//
// Parts of one tensor lie in a space of elements [0, S). If every part is one run, sort and look for gaps and overlaps.
// Otherwise cut the space into rows of the largest stride T of any part (T must divide S). Each part is then "rows [a, b) x the
// same pattern inside each of these rows". Parts with equal rows form a band; the bands must tile the rows, and inside a band
// the patterns must tile a space of T elements: the same problem, smaller. Tensor-parallel shards by row, column or both, and
// FSDP ranges within them, all reduce in this way; each level costs a sort, and T divides its predecessor, so there are at most
// 64 levels.
//
// What does not reduce is listed as runs after all, up to kExpandedRunLimit, and refused above.
#include <algorithm>
#include <array>
#include <string>

#include "base/checked_math.h"
#include "base/text.h"
#include "tensor/ownership.h"

namespace xorbit {
namespace {

constexpr uint64_t kExpandedRunLimit = uint64_t{1} << 22;

// A part inside the current space of elements. Digits are normalised: counts of 1 dropped, digits that continue each other
// merged, so that equal sets of elements look equal. `digit_count` includes the last digit, whose stride is 1.
struct Pattern {
  uint64_t origin = 0;
  uint32_t digit_count = 0;
  std::array<Digit, kMaxDigits> digits;

  bool is_run() const { return digit_count == 1; }
  const Digit& outer() const { return digits[0]; }
  uint64_t run_length() const { return digits[digit_count - 1].count; }

  uint64_t extent() const {
    uint64_t last = 0;
    for (uint32_t i = 0; i < digit_count; ++i) last += (digits[i].count - 1) * digits[i].stride;
    return last + 1;
  }
  uint64_t run_count() const {
    uint64_t count = 1;
    for (uint32_t i = 0; i + 1 < digit_count; ++i) count *= digits[i].count;
    return count;
  }
  Pattern WithoutOuter() const {
    Pattern inner;
    inner.origin = origin;
    inner.digit_count = digit_count - 1;
    std::copy(digits.begin() + 1, digits.begin() + digit_count, inner.digits.begin());
    return inner;
  }
};

Pattern Normalise(const Part& part) {
  Pattern pattern;
  pattern.origin = part.origin;
  for (size_t i = 0; i < part.digits.size(); ++i) {
    const Digit& digit = part.digits[i];
    if (digit.count == 1 && i + 1 < part.digits.size()) continue;
    Digit* before = pattern.digit_count > 0 ? &pattern.digits[pattern.digit_count - 1] : nullptr;
    if (before != nullptr && before->stride == digit.count * digit.stride) {
      *before = {before->count * digit.count, digit.stride};
    } else {
      pattern.digits[pattern.digit_count++] = digit;
    }
  }
  return pattern;
}

// Patterns in rows of the current space: rows [begin, end) hold `pattern`. Rewritten in place from level to level, so that
// memory does not grow with the depth.
struct Band {
  Pattern pattern;
  uint64_t begin = 0;
  uint64_t end = 0;
  friend bool SameRows(const Band& a, const Band& b) { return a.begin == b.begin && a.end == b.end; }
};

class TensorCoverage {
 public:
  // `expanded_runs` counts over all tensors.
  TensorCoverage(const TensorSpec& tensor, uint64_t* expanded_runs) : tensor_(tensor), expanded_runs_(expanded_runs) {}

  // The patterns must hold each element of [0, space) exactly once. `base` is where the space lies in the tensor, for messages.
  // Reorders and rewrites the bands.
  Status Prove(std::span<Band> bands, uint64_t space, uint64_t base) {
    uint64_t row = 0;  // the largest stride
    for (const Band& band : bands) {
      if (!band.pattern.is_run()) row = std::max(row, band.pattern.outer().stride);
    }
    if (row == 0) return ProveRuns(bands, space, base);
    if (space % row != 0 || !FindRows(bands, row)) return Expand(bands, space, base);
    std::sort(bands.begin(), bands.end(),
              [](const Band& a, const Band& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
    uint64_t next_row = 0;
    for (size_t i = 0; i < bands.size(); ++i) {
      if (i > 0 && SameRows(bands[i - 1], bands[i])) continue;
      if (bands[i].begin < next_row) return Expand(bands, space, base);
      if (bands[i].begin > next_row) return Missing(base + next_row * row);
      next_row = bands[i].end;
    }
    if (next_row != space / row) return Missing(base + next_row * row);
    for (Band& band : bands) KeepInner(row, &band.pattern);
    for (size_t first = 0; first < bands.size();) {
      size_t last = first;
      while (last < bands.size() && SameRows(bands[first], bands[last])) ++last;
      XORBIT_RETURN_IF_ERROR(Prove(bands.subspan(first, last - first), row, base + bands[first].begin * row));
      first = last;
    }
    return {};
  }

 private:
  // Sets each band's rows. False if some pattern is not the same in each row that it touches.
  static bool FindRows(std::span<Band> bands, uint64_t row) {
    for (Band& band : bands) {
      const Pattern& pattern = band.pattern;
      const uint64_t within_row = pattern.origin % row;
      band.begin = pattern.origin / row;
      if (within_row + pattern.extent() <= row) {
        band.end = band.begin + 1;
      } else if (pattern.is_run()) {
        if (within_row != 0 || pattern.run_length() % row != 0) return false;
        band.end = band.begin + pattern.run_length() / row;
      } else {
        if (pattern.outer().stride != row || within_row + pattern.WithoutOuter().extent() > row) return false;
        band.end = band.begin + pattern.outer().count;
      }
    }
    return true;
  }

  // The pattern inside one of the rows that FindRows found.
  static void KeepInner(uint64_t row, Pattern* pattern) {
    if (pattern->is_run()) {
      pattern->digits[0].count = std::min(pattern->digits[0].count, row);
    } else if (pattern->outer().stride == row) {
      *pattern = pattern->WithoutOuter();
    }
    pattern->origin %= row;
  }

  Status ProveRuns(std::span<Band> bands, uint64_t space, uint64_t base) {
    std::sort(bands.begin(), bands.end(), [](const Band& a, const Band& b) { return a.pattern.origin < b.pattern.origin; });
    uint64_t next = 0;
    for (const Band& band : bands) {
      if (band.pattern.origin < next) return OwnedTwice(base + band.pattern.origin);
      if (band.pattern.origin > next) return Missing(base + next);
      next += band.pattern.run_length();
    }
    return next == space ? Status() : Missing(base + next);
  }

  // Lists every run. The limit holds for all tensors together, so that many small lists cannot add up to a long wait.
  Status Expand(std::span<const Band> bands, uint64_t space, uint64_t base) {
    for (const Band& band : bands) {
      if (band.pattern.run_count() > kExpandedRunLimit - *expanded_runs_) {
        return UnsupportedError("tensor " + Quoted(tensor_.name) +
                                " is cut too irregularly to prove that every element is owned once");
      }
      *expanded_runs_ += band.pattern.run_count();
    }
    std::vector<PlainRun> runs;
    for (const Band& band : bands) ListRuns(band.pattern, &runs);
    std::sort(runs.begin(), runs.end(), [](const PlainRun& a, const PlainRun& b) { return a.begin < b.begin; });
    uint64_t next = 0;
    for (const PlainRun& run : runs) {
      if (run.begin < next) return OwnedTwice(base + run.begin);
      if (run.begin > next) return Missing(base + next);
      next += run.element_count;
    }
    return next == space ? Status() : Missing(base + next);
  }

  struct PlainRun {
    uint64_t begin = 0;
    uint64_t element_count = 0;
  };

  static void ListRuns(const Pattern& pattern, std::vector<PlainRun>* runs) {
    const uint64_t run_count = pattern.run_count();
    for (uint64_t index = 0; index < run_count; ++index) {
      uint64_t begin = pattern.origin;
      uint64_t rest = index;
      for (uint32_t i = pattern.digit_count - 1; i-- > 0;) {
        begin += rest % pattern.digits[i].count * pattern.digits[i].stride;
        rest /= pattern.digits[i].count;
      }
      runs->push_back({begin, pattern.run_length()});
    }
  }

  Status Missing(uint64_t element) const {
    return CorruptError("tensor " + Quoted(tensor_.name) + ": element " + std::to_string(element) + " is owned by nobody");
  }
  Status OwnedTwice(uint64_t element) const {
    return CorruptError("tensor " + Quoted(tensor_.name) + ": element " + std::to_string(element) + " is owned twice");
  }

  const TensorSpec& tensor_;
  uint64_t* expanded_runs_;
};

}  // namespace

Status ProveCoverage(const Layout& layout, std::span<const SegmentMap* const> segments) {
  // Parts by tensor: count, then fill. SegmentMap has checked that each part is inside its tensor.
  const size_t tensor_count = layout.tensors().size();
  std::vector<uint64_t> begin_of(tensor_count + 1, 0);
  for (const SegmentMap* segment : segments) {
    for (const Part& part : segment->parts()) ++begin_of[part.tensor_index + 1];
  }
  for (size_t i = 0; i < tensor_count; ++i) begin_of[i + 1] += begin_of[i];
  std::vector<const Part*> parts(begin_of[tensor_count]);
  std::vector<uint64_t> fill_at(begin_of.begin(), begin_of.end() - 1);
  for (const SegmentMap* segment : segments) {
    for (const Part& part : segment->parts()) parts[fill_at[part.tensor_index]++] = &part;
  }

  uint64_t expanded_runs = 0;
  std::vector<Band> bands;
  for (size_t i = 0; i < tensor_count; ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    bands.clear();
    for (uint64_t at = begin_of[i]; at < begin_of[i + 1]; ++at) bands.push_back({Normalise(*parts[at])});
    if (tensor.frozen || tensor.byte_count == 0) {
      assert(bands.empty());  // SegmentMap::Make refuses such parts
      continue;
    }
    XORBIT_RETURN_IF_ERROR(TensorCoverage(tensor, &expanded_runs).Prove(bands, tensor.unit_count(), 0));
  }
  return {};
}

}  // namespace xorbit
