// An update in device memory, ready for kernels: tables, tile index, body, room for what pre-flight finds.
//
// All of it lies in one piece of device memory, whose size is known beforehand and which the caller may provide. With none to
// spare, the body stays in the caller's pinned memory and kernels read it there.
#pragma once

#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/update_kernels.h"
#include "backend/cuda/update_plan.h"
#include "backend/serving_throttle.h"

namespace xorbit::cuda {

// An undo log and the forms of dense tiles (PlanBitmaps) go not together.
struct StageOptions {
  bool body_on_device = true;  // false: payload bytes are pinned, 4-byte aligned and outlive the update
  bool keep_undo_log = false;
  bool inverse = false;
  bool partial = false;
  ServingThrottle throttle = ServingThrottle::None();
};

class StagedUpdate {
 public:
  // Device bytes that Stage needs.
  static uint64_t BytesFor(const UpdatePlan& plan, const StageOptions& options);

  // Copies everything by the caller's stream and waits for it. `memory_dev` is 256-byte aligned, of BytesFor() bytes, and
  // outlives the update, as the plan does.
  static Result<StagedUpdate> Stage(const UpdatePlan& plan, const StageOptions& options, uint8_t* memory_dev,
                                    cudaStream_t stream);

  const UpdateOnDevice& update() const { return update_; }
  // The same, of the plan's checked_tiles and cast_tiles alone: what LaunchBindings goes through.
  const UpdateOnDevice& checked() const { return checked_; }
  const UpdateOnDevice& cast() const { return cast_; }
  const BindingsOnDevice& bindings() const { return bindings_; }
  bool has_undo_log() const { return has_undo_log_; }

  // The same update, of which a launch goes through items [begin, end) only.
  UpdateOnDevice Slice(const UpdatePlan& plan, uint64_t begin, uint64_t end) const {
    UpdateOnDevice slice = update_;
    slice.items = ItemsOf(plan, begin, end);
    return slice;
  }

  // Clears what kernels add up; in stream order.
  Status ClearCounters(cudaStream_t stream) const;
  uint64_t payload_count() const { return payload_count_; }
  // Copies them to pinned memory, one for each payload; in stream order.
  Status CopyCounters(PayloadCounters* to_pinned, cudaStream_t stream) const;
  // Waits for the stream and reads them.
  Result<std::vector<PayloadCounters>> ReadCounters(cudaStream_t stream) const;
  // Waits for the stream and reads every tile's sums over what this rank counts.
  Result<std::vector<TileSums>> ReadCountedSums(cudaStream_t stream) const;
  // Waits for the stream and reads what the names of tied tensors change.
  Result<std::vector<TieOnDevice>> ReadTies(cudaStream_t stream) const;

 private:
  UpdateOnDevice update_{};
  UpdateOnDevice checked_{};
  UpdateOnDevice cast_{};
  BindingsOnDevice bindings_{};
  uint64_t tie_count_ = 0;
  uint64_t payload_count_ = 0;
  uint64_t tile_count_ = 0;
  bool has_undo_log_ = false;
};

}  // namespace xorbit::cuda
