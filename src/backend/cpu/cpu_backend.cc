#include "backend/cpu/cpu_backend.h"

#include "backend/cpu/cpu_codec.h"
#include "backend/cpu/diff_source.h"
#include "backend/cpu/digest_scan.h"
#include "backend/cpu/live_scan.h"
#include "backend/cpu/prepare.h"
#include "backend/cpu/roll_back.h"
#include "codec/change_digest.h"

namespace xorbit {
namespace {

Result<const Codec*> CodecOf(CodecId id) {
  const Codec* codec = CpuCodec(id);
  if (codec == nullptr) return UnsupportedError("this build has no codec number " + std::to_string(static_cast<uint32_t>(id)));
  return codec;
}

class CpuBackend final : public Backend {
 public:
  Result<EncodedOwner> EncodeDiff(const Layout& layout, std::span<const SegmentMap> maps, const OldState& old_state,
                                  std::span<const SegmentBytes> new_bytes, CodecId codec_id,
                                  const EncodeOptions& options) const override {
    XORBIT_ASSIGN_OR_RETURN(const Codec* codec, CodecOf(codec_id));
    const std::vector<uint64_t> tensor_keys = TensorKeysOf(layout);
    const auto base_digest = old_state.digest ? DiffSource::BaseDigest::kSkip : DiffSource::BaseDigest::kAccumulate;
    EncodedOwner owner;
    owner.base = old_state.digest.value_or(StateDigest());
    for (size_t i = 0; i < maps.size(); ++i) {
      const DiffSource source(maps[i], old_state.bytes[i], new_bytes[i], tensor_keys, base_digest, old_state.DueIn(i));
      XORBIT_ASSIGN_OR_RETURN(EncodedSegment segment, codec->Encode(maps[i], tensor_keys, source, options));
      if (!old_state.digest) owner.base += source.FinishBaseDigest();
      owner.segments.push_back(std::move(segment));
    }
    return owner;
  }

  Result<EncodedSegment> Encode(const Layout& layout, const SegmentMap& map, const ChangeSource& source, CodecId codec_id,
                                const EncodeOptions& options) const override {
    XORBIT_ASSIGN_OR_RETURN(const Codec* codec, CodecOf(codec_id));
    return codec->Encode(map, TensorKeysOf(layout), source, options);
  }

  Result<std::unique_ptr<SegmentDecoder>> Open(const PayloadView& payload, const PayloadSegment& segment) const override {
    XORBIT_ASSIGN_OR_RETURN(const Codec* codec, CodecOf(payload.info.codec));
    return codec->Open(segment.map, segment.view);
  }

  std::vector<StateDigest> DigestParts(const Layout& layout, const SegmentMap& map, const SegmentBytes& bytes,
                                       int threads) const override {
    return DigestSegmentParts(layout, map, bytes, threads);
  }

  StateDigest Scan(const Layout& layout, TensorBytes bytes, ScanScope scope, int threads) const override {
    return ScanDigest(layout, bytes, scope, threads);
  }

  Result<StateDigest> ScanLive(const Layout& layout, const LiveMemory& live, ScanScope scope, int threads,
                               const ServingThrottle& /*throttle*/) const override {
    return ScanLiveMemory(layout, live, scope, threads);
  }

  Result<std::unique_ptr<PreparedUpdate>> Prepare(const Layout& layout, std::span<const PayloadView> payloads,
                                                  const LiveMemory& live, const PrepareOptions& options) const override {
    return PrepareUpdate(*this, layout, payloads, live, options);
  }

  Status RollBack(const Layout& layout, const LiveMemory& live, UndoMemory* undo, int threads) const override {
    return RollBackLive(layout, live, undo, threads);
  }
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend() { return std::make_unique<CpuBackend>(); }

}  // namespace xorbit
