// The decompression engine of newer GPUs as a frame decoder: it reads pinned host memory and writes device memory by itself.
//
// The driver reports neither wrong nor missing bytes, so its word is never enough: lengths and hashes are compared before a
// mask is used. Frames that are too long for it are left to another decoder.
#pragma once

#include <array>
#include <vector>

#include "backend/cuda/mask/driver_api.h"

namespace xorbit::cuda {

class EngineDecoder final : public FrameDecoder {
 public:
  // kUnsupported, saying why, if `device` has no engine for these frames. Both pointees outlive it.
  static Result<std::unique_ptr<EngineDecoder>> Make(const DriverApi& driver, int device, InnerKind kind,
                                                     FrameDecoder* for_long_frames);

  std::string_view name() const override { return "engine"; }
  bool marks_groups() const override { return false; }
  bool needs_proof() const override { return true; }
  // kUnsupported if the engine cannot reach the frames, the slot or the lengths.
  Status Submit(const DecodeJob& job) override;

 private:
  EngineDecoder(const DriverApi& driver, uint32_t algorithm, uint64_t most_bytes, FrameDecoder* for_long_frames)
      : driver_(driver), algorithm_(algorithm), most_bytes_(most_bytes), for_long_frames_(for_long_frames) {}
  Status CheckReach(const DecodeJob& job) const;
  bool IsLong(const FrameOnDevice& frame) const { return frame.inner_bytes > most_bytes_ || frame.mask_bytes > most_bytes_; }

  const DriverApi& driver_;
  uint32_t algorithm_;
  uint64_t most_bytes_;
  FrameDecoder* for_long_frames_;
  // Of jobs that may not be done yet: at most one for each slot is.
  std::array<std::vector<DecompressRequest>, 8> requests_;
  uint32_t next_ = 0;
};

}  // namespace xorbit::cuda
