// Backend::EncodeDiff for states in device memory.
#pragma once

#include <optional>

#include "backend/backend.h"

namespace xorbit::cuda {

// The device that holds the new bytes, or nothing if they are the host's. kUsage if they are spread, or if old bytes lie where
// that device cannot read them: they may be page-locked host memory, which it reads at the speed of its bus.
Result<std::optional<int>> DeviceOfStates(std::span<const SegmentMap> maps, std::span<const SegmentBytes> old_bytes,
                                          std::span<const SegmentBytes> new_bytes);

// The contract of Backend::EncodeDiff for all codecs but zstd, new bytes on `device` and nothing due. Works on a stream and in
// memory of its own; who encodes every step keeps a CudaSender instead.
Result<EncodedOwner> EncodeDiffOnDevice(const Layout& layout, std::span<const SegmentMap> maps, const OldState& old_state,
                                        std::span<const SegmentBytes> new_bytes, int device, CodecId codec,
                                        const EncodeOptions& options);

}  // namespace xorbit::cuda
