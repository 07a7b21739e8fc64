// nvCOMP's CUDA kernels as a frame decoder, where its library is found at run time: a rival to measure ours against. Only its
// documented batched calls are used, version 6 of them; nothing of it is part of this program.
#pragma once

#include <array>
#include <string>

#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/mask/frame_decoder.h"

namespace xorbit::cuda {

class NvcompDecoder final : public FrameDecoder {
 public:
  // folder: where libnvcomp.so.6 lies; empty: where the system looks. kUnsupported if it is not there or of another version.
  static Result<std::unique_ptr<NvcompDecoder>> Make(const std::string& folder, InnerKind kind);

  std::string_view name() const override { return "nvcomp"; }
  bool marks_groups() const override { return false; }
  bool needs_proof() const override { return true; }
  Status Submit(const DecodeJob& job) override;

 private:
  struct Calls;
  // What one batch is described by, and where its lengths come: page-locked arrays and their copies on the device.
  struct Batch {
    PinnedBuffer lists_host;
    DeviceBuffer lists_dev;
    DeviceBuffer scratch_dev;
    Event done;
    uint64_t frame_count = 0;  // that there is room for
  };
  explicit NvcompDecoder(const Calls& calls) : calls_(&calls) {}
  Status Reserve(uint64_t frame_count, uint64_t scratch_bytes, Batch* batch) const;

  const Calls* calls_;
  std::array<Batch, 2> batches_;
  uint32_t next_ = 0;
};

}  // namespace xorbit::cuda
