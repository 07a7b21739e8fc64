// A backend that does what another one does: tests derive from it and do one thing differently.
#pragma once

#include <memory>
#include <utility>

#include "backend/backend.h"

namespace xorbit {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(const Backend& backend) : backend_(backend) {}

  Result<EncodedOwner> EncodeDiff(const Layout& layout, std::span<const SegmentMap> maps, const OldState& old_state,
                                  std::span<const SegmentBytes> new_bytes, CodecId codec,
                                  const EncodeOptions& options) const override {
    return backend_.EncodeDiff(layout, maps, old_state, new_bytes, codec, options);
  }
  Result<EncodedSegment> Encode(const Layout& layout, const SegmentMap& map, const ChangeSource& source, CodecId codec,
                                const EncodeOptions& options) const override {
    return backend_.Encode(layout, map, source, codec, options);
  }
  Result<std::unique_ptr<SegmentDecoder>> Open(const PayloadView& payload, const PayloadSegment& segment) const override {
    return backend_.Open(payload, segment);
  }
  std::vector<StateDigest> DigestParts(const Layout& layout, const SegmentMap& map, const SegmentBytes& bytes,
                                       int threads) const override {
    return backend_.DigestParts(layout, map, bytes, threads);
  }
  StateDigest Scan(const Layout& layout, TensorBytes bytes, ScanScope scope, int threads) const override {
    return backend_.Scan(layout, bytes, scope, threads);
  }
  Result<StateDigest> ScanLive(const Layout& layout, const LiveMemory& live, ScanScope scope, int threads,
                               const ServingThrottle& throttle) const override {
    return backend_.ScanLive(layout, live, scope, threads, throttle);
  }
  Result<bool> CanFoldOver(const LiveMemory& live) const override { return backend_.CanFoldOver(live); }
  Result<std::unique_ptr<PreparedUpdate>> Prepare(const Layout& layout, std::span<const PayloadView> payloads,
                                                  const LiveMemory& live, const PrepareOptions& options) const override {
    return backend_.Prepare(layout, payloads, live, options);
  }
  Status RollBack(const Layout& layout, const LiveMemory& live, UndoMemory* undo, int threads) const override {
    return backend_.RollBack(layout, live, undo, threads);
  }

 private:
  const Backend& backend_;
};

}  // namespace xorbit
