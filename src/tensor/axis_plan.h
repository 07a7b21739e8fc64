// One axis of a tensor on its way to live memory: which canonical rows (or columns) a rank holds and where each goes.
//
// Engines' layouts are separable: where an element goes is the sum of a term of its row and a term of its column, even in
// block-scale swizzles. So each axis is planned alone, as plain runs by index arithmetic that reads like the engine's own, and
// found again as few boxes with digits by looking for what repeats. A piece is a box of rows times a box of columns.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "tensor/piece_class.h"

namespace xorbit {

// Consecutive canonical places; their images lie `live_stride` apart.
struct AxisRun {
  uint64_t canonical = 0;
  uint64_t live = 0;
  uint64_t count = 0;
  uint64_t live_stride = 1;
  bool counted = true;  // false: this rank holds a replica
};

// Runs that repeat, and their repetitions that repeat.
struct AxisBox {
  uint64_t canonical = 0;
  uint64_t live = 0;
  std::vector<LiveDigit> digits;  // slowest first
  bool counted = true;
};

// How an axis is cut over ranks.
struct AxisCut {
  uint32_t index = 0;
  uint32_t count = 1;
};

// A stretch of an axis that is cut by itself, e.g. the rows of one of several matrices that the checkpoint stores as one.
struct AxisSection {
  uint64_t length = 0;
  uint32_t heads = 0;  // if not 0: the stretch is so many heads, and where there are fewer than ranks each is held by several
};

struct AxisSlice {
  std::vector<AxisRun> runs;  // ascending on both sides
  uint64_t live_length = 0;   // with padding
};

// This rank's part of each section, end to end. `pad_to`: the live axis is padded to a multiple before it is cut (1: not at
// all). kRefused if a section or its heads do not divide; the message continues a sentence about the tensor.
Result<AxisSlice> SliceAxis(const std::vector<AxisSection>& sections, uint64_t pad_to, const AxisCut& cut);

// Rows of `slot_count` tensors take turns in groups of `group` rows; ours is tensor `slot`. All have the same number of rows,
// which `group` divides.
std::vector<AxisRun> InterleaveRows(const std::vector<AxisRun>& rows, uint64_t group, uint64_t slot, uint64_t slot_count);

// The layout of block scales for NVFP4 tensor cores (cuBLAS, "1D block scaling factors layout"): tiles of 128 rows x 4 columns,
// of 512 scales; in a tile row m, column k is scale (m % 32) * 16 + (m / 32) * 4 + k.
inline constexpr uint64_t kSwizzleRows = 128;
inline constexpr uint64_t kSwizzleColumns = 4;
std::vector<AxisRun> SwizzleRows(const std::vector<AxisRun>& rows, uint64_t padded_columns);
std::vector<AxisRun> SwizzleColumns(const std::vector<AxisRun>& columns);

// Within each group of order.size() places, the i-th goes to place order[i]. Runs have to begin and end with groups: kRefused.
Result<std::vector<AxisRun>> Reorder(const std::vector<AxisRun>& runs, const std::vector<uint32_t>& order);

// The same places as few boxes. `runs` ascend by canonical place.
std::vector<AxisBox> FindBoxes(const std::vector<AxisRun>& runs);

}  // namespace xorbit
