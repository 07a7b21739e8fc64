#include "tensor/axis_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/checked_math.h"

namespace xorbit {
namespace {

// Calls emit(canonical, live, count, counted) for the parts of unit-stride runs that lie between multiples of `period` live.
template <typename Emit>
void ForEachPart(const std::vector<AxisRun>& runs, uint64_t period, Emit&& emit) {
  for (const AxisRun& run : runs) {
    for (uint64_t done = 0; done < run.count;) {
      const uint64_t live = run.live + done * run.live_stride;
      const uint64_t rest = run.count - done;
      const uint64_t count = run.live_stride == 1 ? std::min(rest, period - live % period) : 1;
      emit(run.canonical + done, live, count, run.counted);
      done += count;
    }
  }
}

bool SameShape(const AxisBox& a, const AxisBox& b) { return a.counted == b.counted && a.digits == b.digits; }

struct Step {
  uint64_t canonical = 0;
  uint64_t live = 0;  // 0: these two boxes cannot be one
  friend bool operator==(const Step&, const Step&) = default;
};

Step StepBetween(const AxisBox& a, const AxisBox& b) {
  if (!SameShape(a, b) || b.live <= a.live) return {};
  return {b.canonical - a.canonical, b.live - a.live};
}

// Joins boxes that repeat at equal steps. True if any were.
bool JoinOnce(std::vector<AxisBox>* boxes) {
  std::vector<AxisBox> joined;
  const size_t size = boxes->size();
  const auto step_at = [&](size_t i) { return i + 1 < size ? StepBetween((*boxes)[i], (*boxes)[i + 1]) : Step(); };
  for (size_t i = 0; i < size;) {
    const Step step = step_at(i);
    size_t last = i;
    while (step.live != 0 && step_at(last) == step) ++last;
    // The end of one series and the start of the next are not a series of two.
    if (last == i + 1 && step_at(last).live != 0 && step_at(last) == step_at(last + 1)) last = i;
    AxisBox& box = joined.emplace_back((*boxes)[i]);
    if (last > i) box.digits.insert(box.digits.begin(), {last - i + 1, step.canonical, step.live});
    i = last + 1;
  }
  const bool any = joined.size() < size;
  *boxes = std::move(joined);
  return any;
}

}  // namespace

Result<AxisSlice> SliceAxis(const std::vector<AxisSection>& sections, uint64_t pad_to, const AxisCut& cut) {
  AxisSlice slice;
  uint64_t section_begin = 0;
  for (const AxisSection& section : sections) {
    const std::string length = std::to_string(section.length);
    const uint64_t padded = DivideRoundUp(section.length, pad_to) * pad_to;
    uint64_t part_count = cut.count;
    if (section.heads != 0) {
      if (section.length % section.heads != 0) {
        return RefusedError("has " + length + " rows or columns that are not " + std::to_string(section.heads) + " heads");
      }
      if (section.heads % cut.count != 0 && cut.count % section.heads != 0) {
        return RefusedError("has " + std::to_string(section.heads) + " heads, which do not divide over " +
                            std::to_string(cut.count) + " ranks");
      }
      part_count = std::min<uint64_t>(section.heads, cut.count);
    }
    if (padded % part_count != 0) {
      return RefusedError("has " + length + " rows or columns, which do not divide over " + std::to_string(part_count) +
                          " ranks");
    }
    const uint64_t part_length = padded / part_count;
    const uint64_t replicas = cut.count / part_count;
    const uint64_t begin = std::min(section.length, cut.index / replicas * part_length);
    const uint64_t end = std::min(section.length, begin + part_length);
    if (end > begin) {
      slice.runs.push_back({.canonical = section_begin + begin,
                            .live = slice.live_length,
                            .count = end - begin,
                            .live_stride = 1,
                            .counted = cut.index % replicas == 0});
    }
    slice.live_length += part_length;
    section_begin += section.length;
  }
  return slice;
}

std::vector<AxisRun> InterleaveRows(const std::vector<AxisRun>& rows, uint64_t group, uint64_t slot, uint64_t slot_count) {
  std::vector<AxisRun> runs;
  ForEachPart(rows, group, [&](uint64_t canonical, uint64_t live, uint64_t count, bool counted) {
    runs.push_back({canonical, live / group * group * slot_count + slot * group + live % group, count, 1, counted});
  });
  return runs;
}

std::vector<AxisRun> SwizzleRows(const std::vector<AxisRun>& rows, uint64_t padded_columns) {
  std::vector<AxisRun> runs;
  ForEachPart(rows, 32, [&](uint64_t canonical, uint64_t row, uint64_t count, bool counted) {
    const uint64_t tile = row / kSwizzleRows * kSwizzleRows * padded_columns;
    runs.push_back({canonical, tile + row % 32 * 16 + row % kSwizzleRows / 32 * 4, count, 16, counted});
  });
  return runs;
}

std::vector<AxisRun> SwizzleColumns(const std::vector<AxisRun>& columns) {
  std::vector<AxisRun> runs;
  ForEachPart(columns, kSwizzleColumns, [&](uint64_t canonical, uint64_t column, uint64_t count, bool counted) {
    const uint64_t tile = column / kSwizzleColumns * kSwizzleRows * kSwizzleColumns;
    runs.push_back({canonical, tile + column % kSwizzleColumns, count, 1, counted});
  });
  return runs;
}

Result<std::vector<AxisRun>> Reorder(const std::vector<AxisRun>& runs, const std::vector<uint32_t>& order) {
  std::vector<AxisRun> reordered;
  for (const AxisRun& run : runs) {
    if (run.canonical % order.size() != 0 || run.count % order.size() != 0) {
      return RefusedError("is cut inside a group of " + std::to_string(order.size()) + " places that the engine reorders");
    }
    for (uint64_t i = 0; i < run.count; ++i) {
      const uint64_t live = run.live + i / order.size() * order.size() + order[i % order.size()];
      reordered.push_back({run.canonical + i, live, 1, 1, run.counted});
    }
  }
  return reordered;
}

std::vector<AxisBox> FindBoxes(const std::vector<AxisRun>& runs) {
  std::vector<AxisBox> boxes;
  for (const AxisRun& run : runs) {
    boxes.push_back({run.canonical, run.live, {{run.count, 1, run.live_stride}}, run.counted});
    if (run.count == 1) boxes.back().digits.clear();
  }
  while (JoinOnce(&boxes)) {
  }
  return boxes;
}

}  // namespace xorbit
