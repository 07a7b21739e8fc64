// The diff with its loads on the way while it works: each lane copies its vectors of the next lines into shared memory, and
// only reads what it has copied itself, so that no barrier is needed.
#pragma once

#include "backend/cuda/diff_line.h"
#include "backend/cuda/send_launch.cuh"

namespace xorbit::cuda {

inline constexpr uint32_t kStageVectors = 2 * kVectorsAtOnce;
constexpr uint32_t StagedBytes(uint32_t stages) { return stages * kStageVectors * kSendThreads * kVectorBytes; }

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
class LineWalk {
 public:
  __device__ __forceinline__ LineWalk(const SendOnDevice& send, uint32_t unit_bytes)
      : send_(&send), unit_bytes_(unit_bytes), line_index_(FirstItem()) {
    if (done()) return;
    next_ = send.strips[line_index_ / kLinesPerStrip];
    Enter();
  }
  __device__ __forceinline__ bool done() const { return line_index_ >= send_->strip_count * kLinesPerStrip; }
  __device__ __forceinline__ void Advance() {
    line_index_ += ItemStride();
    if (!done()) Enter();
  }
  // Whether there is such a line: a short strip has fewer.
  __device__ __forceinline__ bool exists() const { return line_at() < view_.end_bytes; }
  // Whether the line lies inside the strip, and aligned.
  __device__ __forceinline__ bool is_whole() const {
    return view_.aligned && line_at() >= view_.head_bytes && line_at() + kLineBytes <= view_.end_bytes;
  }
  __device__ __forceinline__ uint64_t line_index() const { return line_index_; }
  __device__ __forceinline__ uint64_t line_at() const { return line_index_ % kLinesPerStrip * kLineBytes; }
  __device__ __forceinline__ const Strip& strip() const { return strip_; }
  __device__ __forceinline__ const StripView& view() const { return view_; }

 private:
  __device__ __forceinline__ void Enter() {
    strip_ = next_;
    view_ = ViewOf(strip_, unit_bytes_);
    const uint64_t next_strip = (line_index_ + ItemStride()) / kLinesPerStrip;
    if (next_strip < send_->strip_count) next_ = send_->strips[next_strip];
  }

  const SendOnDevice* send_;
  uint32_t unit_bytes_;
  uint64_t line_index_;
  Strip strip_{};
  Strip next_{};
  StripView view_{};
};

// Begins to copy a line, if it is one that is copied, and advances. `slots`: this thread's of the stage.
__device__ __forceinline__ void Fetch(LineWalk* walk, uint4* slots) {
  if (!walk->done()) {
    if (walk->is_whole()) {
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

__device__ __forceinline__ void TakeLine(const LineWalk& walk, const uint4* slots, LoadedLine* line) {
  if (!walk.is_whole()) return LoadLine(walk.view(), walk.line_at(), line);
#pragma unroll
  for (uint32_t j = 0; j < kVectorsAtOnce; ++j) {
    const auto old = *reinterpret_cast<const Vector*>(&slots[(2 * j) * kSendThreads]);
    const auto other = *reinterpret_cast<const Vector*>(&slots[(2 * j + 1) * kSendThreads]);
    line->olds[j] = old;
    line->changes[j] = {old.low ^ other.low, old.high ^ other.high};
  }
}

template <typename Unit, uint32_t kStages>
__device__ __forceinline__ void DiffStaged(const SendOnDevice& send, uint4* shared) {
  uint4* const own = shared + threadIdx.x;
  LineWalk fetch(send, sizeof(Unit));
  LineWalk walk(send, sizeof(Unit));
  StoreCursor cursor;
#pragma unroll
  for (uint32_t s = 0; s < kStages; ++s) Fetch(&fetch, own + s * kStageVectors * kSendThreads);
  for (uint32_t stage = 0; !walk.done(); walk.Advance()) {
    WaitForCopies<kStages - 1>();
    uint4* const slots = own + stage * kStageVectors * kSendThreads;
    LoadedLine line;
    if (walk.exists()) TakeLine(walk, slots, &line);
    Fetch(&fetch, slots);
    uint64_t entry = 0;
    if (walk.exists()) {
      const uint32_t first_position = FirstPosition<Unit>(walk.strip(), walk.view(), walk.line_at());
      entry = StoreLine<Unit>(send, line, first_position, &cursor);
    }
    if (Lane() == 0) send.lines[walk.line_index()] = entry;
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
}

}  // namespace xorbit::cuda
