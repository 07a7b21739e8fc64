// The background's work, pass by pass, as the benchmark of a serving engine needs it: the product's own launches and copies.
#pragma once

#include "backend/cuda/scan_kernels.h"
#include "backend/cuda/testing/live_model.h"
#include "backend/serving_throttle.h"

namespace xorbit::cuda::testing {

// One staged update of a model and a plan to scan it. One thread at a time; on a stream of its own.
class ServingLoads {
 public:
  // `live` holds the model's old version, and outlives this, as the model does.
  static Result<ServingLoads> Make(const BigModel& model, const LiveModel& live);

  // Each is one pass, waited for. kCorrupt if it did not find what it should.
  Status Fetch(const ServingThrottle& throttle);      // payload from pinned host memory to the device
  Status Preflight(const ServingThrottle& throttle);  // of all tiles
  Status Scan(const ServingThrottle& throttle);       // of a tenth of the weights, both lanes: all take long
  uint64_t scanned_bytes() const { return scanned_bytes_; }

 private:
  Status Wait() const;

  const BigModel* model_ = nullptr;
  Stream stream_;
  PinnedBuffer payload_host_;
  DeviceBuffer payload_;
  UpdatePlan plan_;
  DeviceBuffer update_memory_;
  StagedUpdate update_;
  DeviceBuffer pieces_;
  uint64_t piece_count_ = 0;
  uint64_t scanned_bytes_ = 0;
  DeviceBuffer digest_;
  StateDigest expected_;
  bool has_expected_ = false;
};

}  // namespace xorbit::cuda::testing
