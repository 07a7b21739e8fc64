// Names for NVIDIA's profilers (Nsight): ranges of host threads, through the header-only NVTX of the CUDA toolkit, which does
// nothing unless a profiler has loaded the process.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include "base/stage_timer.h"

namespace xorbit::cuda {

class NvtxRange {
 public:
  explicit NvtxRange(const char* name) { nvtxRangePushA(name); }
  ~NvtxRange() { nvtxRangePop(); }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

// The stages of senders and receivers.
class NvtxStages final : public StageObserver {
 public:
  void Begin(const std::string& name) override { nvtxRangePushA(name.c_str()); }
  void End(const std::string& /*name*/) override { nvtxRangePop(); }
};

}  // namespace xorbit::cuda
