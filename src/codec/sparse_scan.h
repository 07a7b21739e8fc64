// The encoder's first pass: counts and histograms of all windows, and a cache of their changes as far as memory allows.
//
// The cache holds whole ranges of windows. A range that does not fit is read again from the source in the second pass, so that
// a segment of any size is encoded in bounded memory, to the same bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "change/change_source.h"
#include "codec/codec.h"
#include "codec/sparse_kernels.h"
#include "codec/sparse_plan.h"
#include "codec/sparse_table_set.h"

namespace xorbit {

// Changes of a range of windows end to end, as in WindowChanges.
struct CachedRange {
  bool cached = false;
  std::vector<uint16_t> positions;
  Buffer xors;
  Buffer olds;
};

struct WindowScan {
  std::vector<WindowSummary> windows;
  SegmentHistograms histograms;
  uint64_t change_count = 0;
  uint64_t windows_per_range = 1;
  std::vector<CachedRange> ranges;
};

// Reads the whole source on options.threads threads, keeping at most options.change_cache_bytes of changes. Fails only if the
// source does.
Result<WindowScan> ScanWindows(const ChangeSource& source, const EncodeOptions& options, const SparseKernels& kernels);

// Where a window's changes are; valid until the reader's next call. Where values_count is above count, the values of the next
// changed windows follow, and all of them stay valid as long as the scan.
struct WindowView {
  uint32_t count = 0;
  uint64_t values_count = 0;  // how many values stand end to end at xors and olds
  const uint16_t* positions = nullptr;
  const uint8_t* xors = nullptr;
  const uint8_t* olds = nullptr;  // null without values
};

// Reads windows in ascending order from the cache or, where that has none, from the source. One thread. `scan` and `source`
// must outlive it.
class WindowReader {
 public:
  WindowReader(const WindowScan& scan, const ChangeSource& source) : scan_(&scan), source_(&source) {}
  // Windows must ascend from call to call; some may be left out.
  Status Read(uint64_t window_index, WindowView* view);

 private:
  Status ReadSource(uint64_t window_index, WindowView* view);

  const WindowScan* scan_;
  const ChangeSource* source_;
  uint64_t next_window_ = 0;              // in the current range
  uint64_t next_change_ = 0;              // of the current cached range, at the start of next_window_
  std::unique_ptr<ChangeCursor> cursor_;  // of the current range that is not cached, delivers next_window_ next
  WindowChanges changes_;
};

}  // namespace xorbit
