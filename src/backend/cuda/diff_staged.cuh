// The diff with its loads on the way while it works: each lane copies its vectors of the next lines into shared memory, and
// only reads what it has copied itself, so that no barrier is needed.
#pragma once

#include "backend/cuda/diff_line.h"
#include "backend/cuda/send_launch.cuh"

namespace xorbit::cuda {

inline constexpr uint32_t kStageVectors = 2 * kVectorsAtOnce;
constexpr uint32_t StagedBytes(uint32_t stages) { return stages * kStageVectors * kSendThreads * kVectorBytes; }

// Without a cache hint: with one, ptxas of CUDA 13.0 encodes an illegal instruction where registers are short.
__device__ __forceinline__ void CopyVector(uint4* to_shared, uint64_t from) {
  const auto target = static_cast<uint32_t>(__cvta_generic_to_shared(to_shared));
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(target), "l"(from) : "memory");
}
__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <uint32_t kPending>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// A warp's lines. Warps next to each other take lines next to each other, so that memory is read from few pages at a time; the
// next line's strip is loaded ahead.
template <bool kWithSpan>
class LineWalk {
 public:
  __device__ __forceinline__ LineWalk(const SendOnDevice& send, const StripRange& range, uint32_t unit_bytes)
      : send_(&send), end_strip_(range.end), unit_bytes_(unit_bytes), line_index_(range.first * kLinesPerStrip + FirstItem()) {
    if (done()) return;
    next_ = send.strips[line_index_ / kLinesPerStrip];
    Enter();
  }
  __device__ __forceinline__ bool done() const { return line_index_ >= end_strip_ * kLinesPerStrip; }
  __device__ __forceinline__ void Advance() {
    line_index_ += ItemStride();
    if (!done()) Enter();
  }
  __device__ __forceinline__ uint64_t line_index() const { return line_index_; }
  __device__ __forceinline__ uint64_t line_at() const { return LineAtOf(line_index_); }
  __device__ __forceinline__ const Strip& strip() const { return strip_; }
  __device__ __forceinline__ const StripView& view() const { return view_; }
  __device__ __forceinline__ const TensorSpan& span() const { return span_; }

 private:
  __device__ __forceinline__ void Enter() {
    strip_ = next_;
    view_ = ViewOf(strip_, unit_bytes_);
    if (kWithSpan) span_ = send_->spans[strip_.span_index];
    const uint64_t next_strip = (line_index_ + ItemStride()) / kLinesPerStrip;
    if (next_strip < end_strip_) next_ = send_->strips[next_strip];
  }

  const SendOnDevice* send_;
  uint64_t end_strip_;
  uint32_t unit_bytes_;
  uint64_t line_index_;
  Strip strip_{};
  Strip next_{};
  StripView view_{};
  TensorSpan span_{};
};

// Begins to copy a line, if it is one that is copied, and advances. `slots`: this thread's of the stage.
template <typename Walk>
__device__ __forceinline__ void Fetch(Walk* walk, uint4* slots) {
  if (!walk->done()) {
    if (walk->view().IsWhole(walk->line_at())) {
      const uint64_t at = walk->line_at() + Lane() * kVectorBytes;
#pragma unroll
      for (uint32_t j = 0; j < kVectorsAtOnce; ++j) {
        CopyVector(&slots[(2 * j) * kSendThreads], walk->view().old_begin + at + j * kWarpLanes * kVectorBytes);
        CopyVector(&slots[(2 * j + 1) * kSendThreads], walk->view().new_begin + at + j * kWarpLanes * kVectorBytes);
      }
    }
    walk->Advance();
  }
  CommitCopies();
}

template <typename Walk>
__device__ __forceinline__ void TakeLine(const Walk& walk, const uint4* slots, LoadedLine* line) {
  if (!walk.view().IsWhole(walk.line_at())) return LoadRagged(walk.view(), walk.line_at(), line);
#pragma unroll
  for (uint32_t j = 0; j < kVectorsAtOnce; ++j) {
    const auto old = *reinterpret_cast<const ulonglong2*>(&slots[(2 * j) * kSendThreads]);
    const auto other = *reinterpret_cast<const ulonglong2*>(&slots[(2 * j + 1) * kSendThreads]);
    line->olds[j] = {old.x, old.y};
    line->changes[j] = {old.x ^ other.x, old.y ^ other.y};
  }
}

template <typename Unit, typename Sums, uint32_t kStages>
__device__ __forceinline__ void DiffStaged(const SendOnDevice& send, const StripRange& range, uint4* shared) {
  uint4* const own = shared + threadIdx.x;
  LineWalk<false> fetch(send, range, sizeof(Unit));
  LineWalk<Sums::kWanted> walk(send, range, sizeof(Unit));
  ChangeStore<Unit> store(send.cursors[FirstItem()]);
  Sums base;
#pragma unroll
  for (uint32_t s = 0; s < kStages; ++s) Fetch(&fetch, own + s * kStageVectors * kSendThreads);
  for (uint32_t stage = 0; !walk.done(); walk.Advance()) {
    WaitForCopies<kStages - 1>();
    uint4* const slots = own + stage * kStageVectors * kSendThreads;
    LoadedLine line;
    if (walk.view().Has(walk.line_at())) TakeLine(walk, slots, &line);
    Fetch(&fetch, slots);
    DiffLine<Unit>(send, walk.strip(), walk.view(), walk.span(), walk.line_index(), line, &store, &base);
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
  if (Lane() == 0) send.cursors[FirstItem()] = store.cursor();
  base.AddTo(&send.counters->base);
}

}  // namespace xorbit::cuda
