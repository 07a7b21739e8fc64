// What an engine's decode steps lose while fetch, pre-flight and scan run on its device: step times alone, beside each of them
// unthrottled, and at several throttles.
#pragma once

#include "backend/cuda/testing/big_model.h"
#include "backend/cuda/testing/decode_loop.h"

namespace xorbit::cuda::testing {

struct ServingOptions {
  DecodeOptions decode;
  uint64_t least_steps = 400;  // of each row
};

// One line a row: "serving,load,throttle,steps,p50 ms,p99,most,p50 over alone,p99 over alone,ms of one pass of the load (its
// median),passes". Every pass is checked: pre-flight accepts all changes, a scan finds the same digest.
void BenchServing(const BigModel& model, const ServingOptions& options, Report* report);

}  // namespace xorbit::cuda::testing
