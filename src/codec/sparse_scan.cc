#include "codec/sparse_scan.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/checked_math.h"
#include "base/object_pool.h"
#include "base/parallel.h"
#include "base/unit.h"

namespace xorbit {
namespace {

// Enough ranges to balance threads, and small enough that a range which does not fit the cache wastes little.
constexpr uint64_t kMaxWindowsPerRange = 64;
constexpr uint64_t kRangesPerThread = 8;

// Neighbouring changes often have the same symbol; several counters a symbol keep one increment from waiting for the other.
constexpr uint32_t kCounterCopies = 4;

struct RangeCounts {
  std::array<std::array<uint32_t, kGapSymbols>, kCounterCopies> gaps{};
  std::array<std::array<std::array<uint32_t, kValueSymbols>, kCounterCopies>, kMaxPlanes> planes{};
  std::array<std::array<uint32_t, kValueSymbols>, kMaxPlanes> dense_planes{};

  void AddTo(SegmentHistograms* sum, uint32_t unit_bytes) const {
    for (uint32_t copy = 0; copy < kCounterCopies; ++copy) {
      for (size_t s = 0; s < kGapSymbols; ++s) sum->gaps[s] += gaps[copy][s];
      for (uint32_t p = 0; p < unit_bytes; ++p) {
        for (size_t s = 0; s < kValueSymbols; ++s) sum->planes[p][s] += planes[p][copy][s];
      }
    }
    for (uint32_t p = 0; p < unit_bytes; ++p) {
      for (size_t s = 0; s < kValueSymbols; ++s) sum->dense_planes[p][s] += dense_planes[p][s];
    }
  }
};
static_assert(kMaxWindowsPerRange * kWindowElements <= UINT32_MAX, "a range's counters must not overflow");

// Calls count_one(i, copy) for i in [begin, end), with the copies in turn.
template <typename CountOne>
void CountInTurn(uint32_t begin, uint32_t end, CountOne&& count_one) {
  uint32_t i = begin;
  for (; i + kCounterCopies <= end; i += kCounterCopies) {
    for (uint32_t copy = 0; copy < kCounterCopies; ++copy) count_one(i + copy, copy);
  }
  for (uint32_t copy = 0; i < end; ++i, ++copy) count_one(i, copy);
}

void CountGaps(const uint8_t* symbols, uint32_t count, RangeCounts* counts) {
  CountInTurn(1, count, [&](uint32_t i, uint32_t copy) { ++counts->gaps[copy][symbols[i]]; });
}

template <uint32_t kUnitBytes>
void CountValues(const WindowChanges& changes, RangeCounts* counts) {
  const uint8_t* xors = changes.xors.data();
  CountInTurn(0, changes.count, [&](uint32_t i, uint32_t copy) {
    for (uint32_t plane = 0; plane < kUnitBytes; ++plane) ++counts->planes[plane][copy][xors[i * kUnitBytes + plane]];
  });
}

template <uint32_t kUnitBytes>
void CountDenseValues(const WindowChanges& changes, RangeCounts* counts) {
  const uint8_t* xors = changes.xors.data();
  const uint32_t zeros = changes.positions[changes.count - 1] - changes.positions[0] + 1U - changes.count;
  for (uint32_t plane = 0; plane < kUnitBytes; ++plane) {
    for (uint32_t i = 0; i < changes.count; ++i) ++counts->dense_planes[plane][xors[i * kUnitBytes + plane]];
    counts->dense_planes[plane][0] += zeros;
  }
}

// What a thread needs to scan a range; lent from range to range, because clearing a window's buffers takes as long as reading a
// thinly changed range.
struct ScanScratch {
  WindowChanges changes;
  std::vector<uint8_t> gap_symbols;
  RangeCounts counts;
};

template <uint32_t kUnitBytes>
void CountWindow(uint64_t element_count, WindowGaps window_gaps, ScanScratch* scratch) {
  const WindowChanges& changes = scratch->changes;
  if (changes.count == 0) return;
  if (IsDenseWindow(element_count, changes.count, kUnitBytes)) return CountDenseValues<kUnitBytes>(changes, &scratch->counts);
  window_gaps(changes.positions.data(), changes.count, scratch->gap_symbols.data());
  CountGaps(scratch->gap_symbols.data(), changes.count, &scratch->counts);
  CountValues<kUnitBytes>(changes, &scratch->counts);
}

using CountWindowFunction = void (*)(uint64_t, WindowGaps, ScanScratch*);
CountWindowFunction CountWindowOf(uint32_t unit_bytes) {
  return WithUnit(unit_bytes, []<typename Unit>() -> CountWindowFunction { return &CountWindow<sizeof(Unit)>; });
}

// Gaps between the last change of a window and the first of the next one that has any, within a run of sparse windows.
void CountGapsBetweenWindows(const std::vector<WindowSummary>& windows, uint64_t element_count, uint32_t unit_bytes,
                             Histogram* gaps) {
  bool in_run = false;
  uint64_t previous = 0;
  for (uint64_t w = 0; w < windows.size(); ++w) {
    const WindowSummary& window = windows[w];
    if (window.change_count == 0) continue;
    if (IsDenseWindow(WindowElementsAt(element_count, w), window.change_count, unit_bytes)) {
      in_run = false;
      continue;
    }
    const uint64_t gap = w * kWindowElements + window.first - previous - 1;
    // A longer gap is never coded: a tile ends before it.
    if (in_run && gap <= UINT32_MAX) ++(*gaps)[GapSymbolOf(static_cast<uint32_t>(gap))];
    previous = w * kWindowElements + window.last;
    in_run = true;
  }
}

// Shared by the threads of a scan.
class Scanner {
 public:
  Scanner(const ChangeSource& source, const EncodeOptions& options, const SparseKernels& kernels, WindowScan* scan)
      : source_(&source),
        options_(&options),
        window_gaps_(kernels.window_gaps),
        scan_(scan),
        count_window_(CountWindowOf(source.unit_bytes())),
        scratch_([this] { return MakeScratch(); }) {}

  Status ScanRange(uint64_t range_index) {
    const uint64_t first = range_index * scan_->windows_per_range;
    const uint64_t end = std::min(first + scan_->windows_per_range, scan_->windows.size());
    if (!source_->MayChange(first, end - first)) return {};
    const std::unique_ptr<ChangeCursor> cursor = source_->Open(first, end - first);
    const auto scratch = scratch_.Borrow();
    scratch->counts = {};
    CachedRange cache{true, {}, {}, {}};
    uint64_t cached_bytes = 0;
    uint64_t change_count = 0;
    WindowChanges& changes = scratch->changes;
    for (uint64_t w = first; w < end; ++w) {
      XORBIT_RETURN_IF_ERROR(cursor->Next(&changes));
      count_window_(WindowElementsAt(source_->element_count(), w), window_gaps_, scratch.get());
      if (changes.count > 0) {
        scan_->windows[w] = {changes.count, changes.positions[0], changes.positions[changes.count - 1]};
        change_count += changes.count;
        if (cache.cached) {
          if (cache.positions.empty()) ReserveFor(uint64_t{changes.count} * (end - w), &cache);
          Keep(changes, &cache, &cached_bytes);
        }
      }
    }
    TrimRoom(&cache);
    scan_->ranges[range_index] = std::move(cache);
    const std::lock_guard lock(mutex_);
    scratch->counts.AddTo(&scan_->histograms, source_->unit_bytes());
    scan_->change_count += change_count;
    return {};
  }

 private:
  std::unique_ptr<ScanScratch> MakeScratch() const {
    auto scratch = std::make_unique<ScanScratch>();
    scratch->changes.Reserve(source_->unit_bytes(), source_->has_values());
    scratch->gap_symbols.resize(scratch->changes.positions.size());
    return scratch;
  }

  // Room for about as many changes as the range will have if its windows are alike: growing in steps copies everything twice.
  void ReserveFor(uint64_t change_count, CachedRange* cache) const {
    const uint64_t budget = options_->change_cache_bytes / (2 + source_->unit_bytes());
    const uint64_t room = std::min(change_count + change_count / 8, budget);
    cache->positions.reserve(room);
    cache->xors.reserve(room * source_->unit_bytes());
    if (source_->has_values()) cache->olds.reserve(room * source_->unit_bytes());
  }

  // Gives room back where the guess was far off.
  static void TrimRoom(CachedRange* cache) {
    if (cache->positions.capacity() <= cache->positions.size() + cache->positions.size() / 4) return;
    cache->positions.shrink_to_fit();
    cache->xors.shrink_to_fit();
    cache->olds.shrink_to_fit();
  }

  // Adds a window to the range's cache, or gives the whole range up when the budget of all ranges is spent.
  void Keep(const WindowChanges& changes, CachedRange* cache, uint64_t* cached_bytes) {
    const uint64_t value_bytes = uint64_t{changes.count} * source_->unit_bytes();
    const uint64_t bytes = 2 * uint64_t{changes.count} + value_bytes * (source_->has_values() ? 2 : 1);
    if (cache_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes > options_->change_cache_bytes) {
      cache_bytes_.fetch_sub(*cached_bytes + bytes, std::memory_order_relaxed);
      *cache = {};
      return;
    }
    *cached_bytes += bytes;
    cache->positions.insert(cache->positions.end(), changes.positions.data(), changes.positions.data() + changes.count);
    AppendBytes(cache->xors, {changes.xors.data(), value_bytes});
    if (source_->has_values()) AppendBytes(cache->olds, {changes.olds.data(), value_bytes});
  }

  const ChangeSource* source_;
  const EncodeOptions* options_;
  WindowGaps window_gaps_;
  WindowScan* scan_;
  CountWindowFunction count_window_;
  ObjectPool<ScanScratch> scratch_;
  std::atomic<uint64_t> cache_bytes_{0};
  std::mutex mutex_;  // guards scan_->histograms and scan_->change_count
};

}  // namespace

Result<WindowScan> ScanWindows(const ChangeSource& source, const EncodeOptions& options, const SparseKernels& kernels) {
  WindowScan scan;
  const uint64_t window_count = WindowCountOf(source.element_count());
  const uint64_t wanted_ranges = kRangesPerThread * static_cast<uint64_t>(std::max(options.threads, 1));
  scan.windows.resize(window_count);
  scan.windows_per_range = std::clamp<uint64_t>(window_count / wanted_ranges, 1, kMaxWindowsPerRange);
  scan.ranges.resize(DivideRoundUp(window_count, scan.windows_per_range));
  Scanner scanner(source, options, kernels, &scan);
  XORBIT_RETURN_IF_ERROR(
      ParallelFor(options.threads, scan.ranges.size(), [&](uint64_t range_index) { return scanner.ScanRange(range_index); }));
  CountGapsBetweenWindows(scan.windows, source.element_count(), source.unit_bytes(), &scan.histograms.gaps);
  return scan;
}

Status WindowReader::Read(uint64_t window_index, WindowView* view) {
  const uint64_t range_index = window_index / scan_->windows_per_range;
  const uint64_t range_first = range_index * scan_->windows_per_range;
  if (next_window_ <= range_first) {  // the first read in this range
    next_window_ = range_first;
    next_change_ = 0;
    cursor_.reset();
  }
  const CachedRange& range = scan_->ranges[range_index];
  if (!range.cached) return ReadSource(window_index, view);
  for (; next_window_ < window_index; ++next_window_) next_change_ += scan_->windows[next_window_].change_count;
  const uint64_t value_at = next_change_ * source_->unit_bytes();
  *view = {scan_->windows[window_index].change_count, range.positions.size() - next_change_,
           range.positions.data() + next_change_, range.xors.data() + value_at,
           source_->has_values() ? range.olds.data() + value_at : nullptr};
  next_change_ += view->count;
  ++next_window_;
  return {};
}

Status WindowReader::ReadSource(uint64_t window_index, WindowView* view) {
  if (cursor_ == nullptr || next_window_ < window_index) {
    const uint64_t range_end = (window_index / scan_->windows_per_range + 1) * scan_->windows_per_range;
    cursor_ = source_->Open(window_index, std::min<uint64_t>(range_end, scan_->windows.size()) - window_index);
  }
  if (changes_.positions.empty()) changes_.Reserve(source_->unit_bytes(), source_->has_values());
  XORBIT_RETURN_IF_ERROR(cursor_->Next(&changes_));
  next_window_ = window_index + 1;
  *view = {changes_.count, changes_.count, changes_.positions.data(), changes_.xors.data(),
           source_->has_values() ? changes_.olds.data() : nullptr};
  return {};
}

}  // namespace xorbit
