// delta + delta + ... -> one delta: decode, merge in canonical coordinates, encode again.
#include "backend/decoded_chain.h"
#include "journey/journey.h"
#include "journey/sealing.h"

namespace xorbit {
namespace {

// Which end of the chain the checkpoint is at, or a refusal.
Result<ValueSide> SideOf(const Runtime& runtime, const Checkpoint& checkpoint, const std::vector<Delta>& chain) {
  XORBIT_ASSIGN_OR_RETURN(const StateReport state, IdentifyState(runtime, checkpoint, chain));
  if (state.position == ChainPosition::kOnChain && state.chain_index == 0) return ValueSide::kBase;
  if (state.position == ChainPosition::kOnChain && state.chain_index == chain.size()) return ValueSide::kTarget;
  return RefusedError("the checkpoint is neither the base nor the target of this chain of deltas");
}

// A layout is what its sender says; a checkpoint would prove it. Without one, encoders' few bytes a window and a look at each
// stretch must stay affordable: 1 GiB and seconds at this limit, several times the largest models.
constexpr uint64_t kMaxUnprovenLayoutBytes = uint64_t{1} << 43;

}  // namespace

Result<DeltaSummary> FoldDeltas(const Runtime& runtime, const std::vector<fs::path>& chain_folders, const fs::path& delta,
                                const Checkpoint* checkpoint, const DeltaOptions& options) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Delta> chain, OpenChain(runtime, chain_folders));
  const Layout& layout = chain.front().layout;
  const CodecId codec = options.codec.value_or(chain.front().manifest.codec);
  ValueSide side = ValueSide::kNone;
  std::vector<ConstBytes> tensor_bytes;
  if (checkpoint != nullptr) {
    XORBIT_ASSIGN_OR_RETURN(side, SideOf(runtime, *checkpoint, chain));
    tensor_bytes = checkpoint->all_tensor_bytes();
  } else if (layout.total_bytes() > kMaxUnprovenLayoutBytes) {
    return RefusedError("'" + chain.front().folder.string() + "' is for " + std::to_string(layout.total_bytes()) +
                        " bytes of weights; to fold deltas of more than " + std::to_string(kMaxUnprovenLayoutBytes) +
                        ", give --checkpoint");
  }
  XORBIT_ASSIGN_OR_RETURN(const DecodedChain decoded, DecodedChain::Open(*runtime.backend, chain));
  EncodeOptions encode = options.encode;
  encode.threads = runtime.threads;

  if (runtime.progress != nullptr) runtime.progress->Begin("fold", layout.total_bytes());
  std::vector<Payload> payloads;
  for (const PayloadView& owner : chain.front().payloads) {
    const Stage stage(runtime.timers, "fold + encode");
    std::vector<SegmentMap> maps;
    std::vector<EncodedSegment> segments;
    for (const PayloadSegment& segment : owner.segments) {
      std::optional<SegmentBytes> values;
      if (side != ValueSide::kNone) values = SegmentBytes::InTensors(segment.map, tensor_bytes);
      const auto source = decoded.Into(segment.map, side, std::move(values));
      XORBIT_ASSIGN_OR_RETURN(EncodedSegment encoded, runtime.backend->Encode(layout, segment.map, *source, codec, encode));
      segments.push_back(std::move(encoded));
      maps.push_back(segment.map);
      if (runtime.progress != nullptr) runtime.progress->done += segment.map.byte_count();
    }
    XORBIT_ASSIGN_OR_RETURN(Payload payload, WritePayload(layout, {codec, owner.info.owner_index, owner.info.owner_count}, maps,
                                                          std::move(segments), runtime.threads));
    payloads.push_back(std::move(payload));
  }

  // Beyond this point the delta's bytes are fixed. A fold that has values proves itself: what it changes must be what the chain
  // says it changes, in both lanes.
  const StateDigest base = chain.front().manifest.base;
  const StateDigest target = chain.back().manifest.target;
  if (side != ValueSide::kNone && base + TotalChange(payloads) != target) {
    return CorruptError("the deltas do not change what their manifests say: the folded digests do not agree");
  }
  return SealDelta(runtime, delta, layout, payloads, base, target);
}

}  // namespace xorbit
