#include "backend/cpu/diff_source.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <optional>

#include "backend/cpu/digest_scan.h"

namespace xorbit {
namespace {

// Where the digest is counted as well, runs are taken in pieces whose old and new bytes fit a 32 KiB first-level cache, so that
// the digest does not go to memory again.
constexpr uint64_t kCountedPieceBytes = 12 * 1024;

// The front of `run` that ends on a digest block's border and has at most about kCountedPieceBytes; all of a short run.
uint64_t PieceElements(const Run& run, uint32_t unit_bytes) {
  const uint64_t start_bytes = run.tensor_element * unit_bytes;
  const uint64_t end_bytes = (start_bytes + kCountedPieceBytes) / kDigestBlockBytes * kDigestBlockBytes;
  return std::min(run.element_count, (end_bytes - start_bytes) / unit_bytes);
}

// What is due in a window is scattered over it, and waiting for each line would take longer than reading all of them. So old
// bytes, which then stand end to end, are asked for a window ahead. A digest asks for them itself.
uint32_t OldAheadBytes(uint32_t unit_bytes, bool is_due, DiffSource::BaseDigest base_digest) {
  if (is_due) return static_cast<uint32_t>(kWindowElements) * unit_bytes;
  return base_digest == DiffSource::BaseDigest::kAccumulate ? 0 : kDiffPrefetchBytes;
}

}  // namespace

class DiffCursor : public ChangeCursor {
 public:
  DiffCursor(const DiffSource& source, uint64_t first_window) : source_(&source), window_index_(first_window) {
    if (source.due_ != nullptr) due_.emplace(*source.due_);
  }
  Status Next(WindowChanges* changes) override {
    if (due_) XORBIT_RETURN_IF_ERROR(due_->Take(window_index_));
    source_->DiffWindow(window_index_++, changes);
    return {};
  }

 private:
  const DiffSource* source_;
  uint64_t window_index_;
  std::optional<DueChanges::Cursor> due_;
};

DiffSource::DiffSource(const SegmentMap& map, const SegmentBytes& old_bytes, const SegmentBytes& new_bytes,
                       std::span<const uint64_t> tensor_keys, BaseDigest base_digest, DueChanges* due)
    : map_(&map),
      old_bytes_(&old_bytes),
      new_bytes_(&new_bytes),
      tensor_keys_(tensor_keys),
      kernels_(&KernelsOf(ActiveCpuLevel())),
      diff_(kernels_->diff[static_cast<size_t>(std::countr_zero(map.unit_bytes()))]),
      due_(due),
      old_ahead_bytes_(OldAheadBytes(map.unit_bytes(), due != nullptr, base_digest)),
      counted_(base_digest == BaseDigest::kAccumulate ? WindowCountOf(map.element_count()) : 0) {
  assert(due == nullptr || base_digest == BaseDigest::kSkip);
}

std::unique_ptr<ChangeCursor> DiffSource::Open(uint64_t first_window, uint64_t window_count) const {
  assert(first_window + window_count <= WindowCountOf(element_count()));
  static_cast<void>(window_count);
  return std::make_unique<DiffCursor>(*this, first_window);
}

void DiffSource::DiffWindow(uint64_t window_index, WindowChanges* changes) const {
  const uint64_t window_first = window_index * kWindowElements;
  const bool is_counted_here = !counted_.empty() && ClaimWindow(window_index);
  DigestSums sums;
  changes->count = 0;
  RunWalker walker(*map_, window_first, WindowElementsAt(element_count(), window_index));
  Run run;
  while (walker.Next(&run)) {
    if (!is_counted_here) {
      DiffRun(run, window_first, changes);
      continue;
    }
    while (run.element_count > 0) {
      Run piece = run;
      piece.element_count = PieceElements(run, unit_bytes());
      DiffRun(piece, window_first, changes);
      CountRun(piece, &sums);
      run.tensor_element += piece.element_count;
      run.segment_element += piece.element_count;
      run.element_count -= piece.element_count;
    }
  }
  if (is_counted_here) AddToBase(sums);
}

void DiffSource::DiffRun(const Run& run, uint64_t window_first, WindowChanges* changes) const {
  const size_t written_bytes = size_t{changes->count} * unit_bytes();
  const DiffOutput output = {changes->positions.data() + changes->count, changes->xors.data() + written_bytes,
                             changes->olds.data() + written_bytes};
  changes->count += diff_(old_bytes_->Of(run).data(), new_bytes_->Of(run).data(), static_cast<uint32_t>(run.element_count),
                          static_cast<uint32_t>(run.segment_element - window_first), old_ahead_bytes_, output);
}

void DiffSource::CountRun(const Run& run, DigestSums* sums) const {
  AddRange(*kernels_, tensor_keys_[run.tensor_index], run.tensor_element * unit_bytes(), old_bytes_->Of(run), sums);
}

bool DiffSource::ClaimWindow(uint64_t window_index) const {
  return !counted_[window_index].exchange(true, std::memory_order_relaxed);
}

void DiffSource::AddToBase(const DigestSums& sums) const {
  const StateDigest digest = sums.Finish();
  base_lane0_.fetch_add(digest.lane0, std::memory_order_relaxed);
  base_lane1_.fetch_add(digest.lane1, std::memory_order_relaxed);
}

StateDigest DiffSource::FinishBaseDigest() const {
  assert(counted_.size() == WindowCountOf(element_count()));
  for (uint64_t window = 0; window < counted_.size(); ++window) {
    if (!ClaimWindow(window)) continue;
    DigestSums sums;
    RunWalker walker(*map_, window * kWindowElements, WindowElementsAt(element_count(), window));
    Run run;
    while (walker.Next(&run)) CountRun(run, &sums);
    AddToBase(sums);
  }
  return {base_lane0_.load(std::memory_order_relaxed), base_lane1_.load(std::memory_order_relaxed)};
}

}  // namespace xorbit
