#include "backend/cuda/cuda_backend.h"

#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/device_encode.h"
#include "backend/cuda/device_update.h"
#include "backend/cuda/live_digest.h"
#include "backend/cuda/nvtx_range.h"

namespace xorbit {
namespace {

// The device of all live memory, kept copies included.
Result<std::optional<int>> DeviceOfLive(const LiveMemory& live) {
  std::vector<MutableBytes> stretches(live.regions.begin(), live.regions.end());
  stretches.insert(stretches.end(), live.kept.begin(), live.kept.end());
  return cuda::DeviceOf(stretches);
}

class CudaBackend final : public Backend {
 public:
  Result<EncodedOwner> EncodeDiff(const Layout& layout, std::span<const SegmentMap> maps, const OldState& old_state,
                                  std::span<const SegmentBytes> new_bytes, CodecId codec,
                                  const EncodeOptions& options) const override {
    XORBIT_ASSIGN_OR_RETURN(const std::optional<int> device, cuda::DeviceOfStates(maps, old_state.bytes, new_bytes));
    if (!device) return host_->EncodeDiff(layout, maps, old_state, new_bytes, codec, options);
    for (const std::unique_ptr<DueChanges>& due : old_state.due) {
      if (due != nullptr) XORBIT_RETURN_IF_ERROR(due->TakeAll(options.threads));
    }
    return cuda::EncodeDiffOnDevice(layout, maps, old_state, new_bytes, *device, codec, options);
  }
  Result<EncodedSegment> Encode(const Layout& layout, const SegmentMap& map, const ChangeSource& source, CodecId codec,
                                const EncodeOptions& options) const override {
    return host_->Encode(layout, map, source, codec, options);
  }
  Result<std::unique_ptr<SegmentDecoder>> Open(const PayloadView& payload, const PayloadSegment& segment) const override {
    return host_->Open(payload, segment);
  }
  std::vector<StateDigest> DigestParts(const Layout& layout, const SegmentMap& map, const SegmentBytes& bytes,
                                       int threads) const override {
    return host_->DigestParts(layout, map, bytes, threads);
  }
  StateDigest Scan(const Layout& layout, TensorBytes bytes, ScanScope scope, int threads) const override {
    return host_->Scan(layout, bytes, scope, threads);
  }

  Result<StateDigest> ScanLive(const Layout& layout, const LiveMemory& live, ScanScope scope, int threads,
                               const ServingThrottle& throttle) const override {
    XORBIT_ASSIGN_OR_RETURN(const std::optional<int> device, DeviceOfLive(live));
    if (!device) return host_->ScanLive(layout, live, scope, threads, throttle);
    return cuda::ScanDeviceMemory(layout, live, scope, throttle, *device);
  }

  Result<bool> CanFoldOver(const LiveMemory& live) const override {
    XORBIT_ASSIGN_OR_RETURN(const std::optional<int> device, DeviceOfLive(live));
    return !device;
  }

  Result<std::unique_ptr<PreparedUpdate>> Prepare(const Layout& layout, std::span<const PayloadView> payloads,
                                                  const LiveMemory& live, const PrepareOptions& options) const override {
    XORBIT_ASSIGN_OR_RETURN(const std::optional<int> device, DeviceOfLive(live));
    if (!device) return host_->Prepare(layout, payloads, live, options);
    if (options.undo_memory != nullptr) return UnsupportedError("undo memory is for weights in host memory only");
    return cuda::PrepareOnDevice(layout, payloads, live, options, *device);
  }

  // Only host memory has undo memory.
  Status RollBack(const Layout& layout, const LiveMemory& live, UndoMemory* undo, int threads) const override {
    return host_->RollBack(layout, live, undo, threads);
  }

 private:
  std::unique_ptr<Backend> host_ = MakeCpuBackend();
};

}  // namespace

Result<std::unique_ptr<Backend>> MakeCudaBackend() {
  XORBIT_RETURN_IF_ERROR(cuda::CheckDevices());
  static cuda::NvtxStages profiled;
  SetStageObserver(&profiled);
  return std::unique_ptr<Backend>(std::make_unique<CudaBackend>());
}

}  // namespace xorbit
