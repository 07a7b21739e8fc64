// Diff: the changes of one segment between two states in memory, as a ChangeSource.
//
// Where nothing changes a diff is bound by reading, so it can take the base's state digest along while the bytes are in cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/due_changes.h"
#include "base/bytes.h"
#include "change/change_source.h"
#include "change/state_digest.h"
#include "tensor/segment_bytes.h"

namespace xorbit {

class DiffSource : public ChangeSource {
 public:
  enum class BaseDigest { kSkip, kAccumulate };

  // Both views are of `map`; tensor_keys are the layout's digest keys. All must outlive the source, as must the map and what
  // the views look at. If `due` is not null, old bytes are its image, cursors take what is due in a window before they read it,
  // and the base digest is skipped. Uses the CPU level that is active now.
  DiffSource(const SegmentMap& map, const SegmentBytes& old_bytes, const SegmentBytes& new_bytes,
             std::span<const uint64_t> tensor_keys, BaseDigest base_digest, DueChanges* due = nullptr);

  uint32_t unit_bytes() const override { return map_->unit_bytes(); }
  uint64_t element_count() const override { return map_->element_count(); }
  bool has_values() const override { return true; }
  std::unique_ptr<ChangeCursor> Open(uint64_t first_window, uint64_t window_count) const override;

  // The digest of the segment's old bytes, both lanes: what cursors gathered on their way, each window once however often it
  // was read, plus a scan of the windows that nobody read. Only with kAccumulate, and when no cursor is at work.
  StateDigest FinishBaseDigest() const;

 private:
  friend class DiffCursor;

  void DiffWindow(uint64_t window_index, WindowChanges* changes) const;
  // Appends the changes of one run to the window that starts at segment element `window_first`.
  void DiffRun(const Run& run, uint64_t window_first, WindowChanges* changes) const;
  // Counts a run's old bytes.
  void CountRun(const Run& run, DigestSums* sums) const;
  // True for the first caller only.
  bool ClaimWindow(uint64_t window_index) const;
  void AddToBase(const DigestSums& sums) const;

  const SegmentMap* map_;
  const SegmentBytes* old_bytes_;
  const SegmentBytes* new_bytes_;
  std::span<const uint64_t> tensor_keys_;
  const CpuKernels* kernels_;
  DiffKernel diff_;
  DueChanges* due_;
  uint32_t old_ahead_bytes_;

  // Sums modulo 2^64 commute, so relaxed order and any order of windows give the same digest.
  mutable std::vector<std::atomic<bool>> counted_;  // by window; empty with kSkip
  mutable std::atomic<uint64_t> base_lane0_{0};
  mutable std::atomic<uint64_t> base_lane1_{0};
};

}  // namespace xorbit
