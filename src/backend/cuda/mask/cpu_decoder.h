// The CPU as a frame decoder: any inner codec, into pinned memory and over the bus. Slow, and always there.
#pragma once

#include <array>

#include "backend/cuda/cuda_memory.h"
#include "backend/cuda/mask/frame_decoder.h"

namespace xorbit::cuda {

class CpuDecoder final : public FrameDecoder {
 public:
  // Frames' bytes must be in host memory.
  static Result<std::unique_ptr<CpuDecoder>> Make(int threads);

  std::string_view name() const override { return "cpu"; }
  bool marks_groups() const override { return false; }
  bool needs_proof() const override { return false; }
  // Decodes while the caller waits; only copies are put into the stream.
  Status Submit(const DecodeJob& job) override;

 private:
  // Masks on their way to the device, and their lengths.
  struct Bounce {
    PinnedBuffer masks;
    PinnedBuffer lengths;
    Event copied;
  };
  explicit CpuDecoder(int threads) : threads_(threads) {}
  Status Copy(const DecodeJob& job, uint64_t begin, uint64_t end, Bounce* bounce) const;

  int threads_;
  std::array<Bounce, 2> bounces_;
  uint32_t next_ = 0;
};

}  // namespace xorbit::cuda
