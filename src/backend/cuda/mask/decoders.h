// Which decoders an update has: the one that was asked for or found, and those that stand in for it.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/mask/driver_api.h"

namespace xorbit::cuda {

struct DecoderChoice {
  std::vector<std::unique_ptr<FrameDecoder>> decoders;  // the first one is used
  const DriverApi* engine_driver = nullptr;             // if that is an engine
  bool reads_device_memory = false;                     // all of them do, so that frames need not stay on the host
};

// For the current device. name: as MaskOptions::decoder. has_digests: of every payload; without, an engine's output cannot be
// proven and is not asked for. kUsage if there is no such decoder; kUnsupported, saying why, if this machine or the payloads
// rule it out.
Result<DecoderChoice> ChooseDecoders(const std::string& name, InnerKind kind, bool has_digests, int device, int threads);

}  // namespace xorbit::cuda
