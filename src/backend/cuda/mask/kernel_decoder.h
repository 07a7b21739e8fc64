// Our own kernels as a frame decoder: Snappy and LZ4, on any device that this build has code for.
#pragma once

#include "backend/cuda/mask/mask_kernels.h"

namespace xorbit::cuda {

class KernelDecoder final : public FrameDecoder {
 public:
  std::string_view name() const override { return "kernels"; }
  bool marks_groups() const override { return true; }
  bool needs_proof() const override { return false; }
  Status Submit(const DecodeJob& job) override { return LaunchFrameDecode(job); }
};

}  // namespace xorbit::cuda
