#include "receive/staging.h"

#include <string>

#include "backend/decoded_chain.h"
#include "store/fetch.h"

namespace xorbit {
namespace {

Status OverLimit(uint64_t limit_bytes) {
  return RefusedError("this update takes more than the " + std::to_string(limit_bytes) +
                      " bytes that may be staged; raise the limit, or follow more closely");
}

// One payload for each of the first delta's owners: its segments, with everything that the chain changes in them.
Status Fold(const Layout& layout, const Backend& backend, const StagingOptions& options, StagedUpdate* staged) {
  XORBIT_ASSIGN_OR_RETURN(const DecodedChain decoded, DecodedChain::Open(backend, staged->deltas));
  const CodecId codec = CodecId::kSparse;
  EncodeOptions encode;
  encode.threads = options.threads;
  for (const PayloadView& owner : staged->deltas.front().payloads) {
    std::vector<SegmentMap> maps;
    std::vector<EncodedSegment> segments;
    for (const PayloadSegment& segment : owner.segments) {
      const auto source = decoded.Into(segment.map, ValueSide::kNone, std::nullopt);
      XORBIT_ASSIGN_OR_RETURN(EncodedSegment encoded, backend.Encode(layout, segment.map, *source, codec, encode));
      segments.push_back(std::move(encoded));
      maps.push_back(segment.map);
    }
    XORBIT_ASSIGN_OR_RETURN(const Payload payload, WritePayload(layout, {codec, owner.info.owner_index, owner.info.owner_count},
                                                                maps, std::move(segments), options.threads));
    if (payload.byte_count > options.limit_bytes - staged->held_bytes) return OverLimit(options.limit_bytes);
    staged->held_bytes += payload.byte_count;
    Buffer& bytes = staged->fold_files.emplace_back();
    bytes.reserve(payload.byte_count);
    AppendBytes(bytes, payload.head);
    for (const Buffer& piece : payload.body) AppendBytes(bytes, piece);
  }
  for (const Buffer& bytes : staged->fold_files) {
    XORBIT_ASSIGN_OR_RETURN(PayloadView view, ParsePayload(layout, bytes));
    staged->fold.push_back(std::move(view));
  }
  for (const Delta& delta : staged->deltas) staged->held_bytes -= delta.total_file_bytes;
  staged->deltas.clear();
  staged->is_folded = true;
  return {};
}

}  // namespace

Result<std::unique_ptr<StagedUpdate>> StageRoute(Stream& stream, const Backend& backend, std::span<const Hop> route,
                                                 const StagingOptions& options) {
  auto staged = std::make_unique<StagedUpdate>();
  staged->from = route.front().backward ? route.front().edge.to : route.front().edge.from;
  staged->to = route.back().backward ? route.back().edge.from : route.back().edge.to;
  staged->object_count = route.size();
  for (const Hop& hop : route) {
    const uint64_t left_bytes = options.limit_bytes - staged->held_bytes;
    if (hop.edge.byte_count > left_bytes) return OverLimit(options.limit_bytes);
    XORBIT_ASSIGN_OR_RETURN(Delta delta, FetchDelta(stream, hop.edge, {options.threads, left_bytes}));
    staged->held_bytes += delta.total_file_bytes;
    staged->deltas.push_back(std::move(delta));
  }
  staged->fetched_bytes = staged->held_bytes;
  if (route.size() > 1) {
    // A mask is its own inverse: a chain that goes forth and back folds like any other.
    XORBIT_RETURN_IF_ERROR(Fold(stream.layout(), backend, options, staged.get()));
    return staged;
  }
  staged->direction = route.front().backward ? Direction::kInverse : Direction::kForward;
  return staged;
}

}  // namespace xorbit
