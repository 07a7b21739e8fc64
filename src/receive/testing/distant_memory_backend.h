// A backend whose live memory the host may not read, as a device's: whoever folds over it would crash, so nobody may.
#pragma once

#include "receive/testing/forwarding_backend.h"

namespace xorbit {

class DistantMemoryBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  Result<EncodedSegment> Encode(const Layout& /*layout*/, const SegmentMap& /*map*/, const ChangeSource& /*source*/,
                                CodecId /*codec*/, const EncodeOptions& /*options*/) const override {
    return CorruptError("a fold over memory that the host cannot read");
  }
  Result<bool> CanFoldOver(const LiveMemory& /*live*/) const override { return false; }
};

}  // namespace xorbit
