#include "receive/staging.h"

#include <algorithm>
#include <string>

#include "backend/decoded_chain.h"
#include "backend/fold_chain.h"
#include "store/fetch.h"

namespace xorbit {
namespace {

// One way: over live memory, every record proven.
Status FoldOverLive(const Layout& layout, const Backend& backend, const LiveMemory& live, bool backward,
                    const StagingOptions& options, StagedUpdate* staged) {
  FoldOptions fold;
  fold.threads = options.threads;
  fold.direction = backward ? Direction::kInverse : Direction::kForward;
  fold.partial = options.partial;
  if (backward) std::reverse(staged->deltas.begin(), staged->deltas.end());
  std::vector<FoldStep> chain;
  for (const Delta& delta : staged->deltas) chain.push_back({delta.folder.string(), delta.payloads});
  XORBIT_ASSIGN_OR_RETURN(FoldedUpdate folded, FoldChain(backend, layout, chain, live, fold));
  for (size_t i = 0; options.partial && i < chain.size(); ++i) {
    XORBIT_RETURN_IF_ERROR(staged->shares.Add(backend, *live.map, chain[i].payloads, fold.direction, folded.sums[i]));
  }
  staged->fold_files = std::move(folded.files);
  staged->fold = std::move(folded.payloads);
  return {};
}

// Any way, without values: a mask is its own inverse.
Status FoldMasks(const Layout& layout, const Backend& backend, const StagingOptions& options, StagedUpdate* staged) {
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
    staged->fold_files.push_back(FileBytesOf(payload));
  }
  for (const Buffer& bytes : staged->fold_files) {
    XORBIT_ASSIGN_OR_RETURN(PayloadView view, ParsePayload(layout, bytes));
    staged->fold.push_back(std::move(view));
  }
  staged->is_proven = false;
  return {};
}

Status Fold(const Layout& layout, const Backend& backend, const LiveMemory& live, std::span<const Hop> route,
            const StagingOptions& options, StagedUpdate* staged) {
  XORBIT_RETURN_IF_ERROR(TurnsBack(route) ? FoldMasks(layout, backend, options, staged)
                                          : FoldOverLive(layout, backend, live, route.front().backward, options, staged));
  uint64_t fold_bytes = 0;
  for (const Buffer& file : staged->fold_files) fold_bytes += file.size();
  if (fold_bytes > options.limit_bytes - std::min(options.limit_bytes, staged->held_bytes)) {
    return RefusedError("this update and its fold take more than the " + std::to_string(options.limit_bytes) +
                        " bytes that may be staged; raise the limit, or follow more closely");
  }
  staged->deltas.clear();
  staged->held_bytes = fold_bytes;
  staged->is_folded = true;
  return {};
}

}  // namespace

bool TurnsBack(std::span<const Hop> route) {
  return std::ranges::any_of(route, [&](const Hop& hop) { return hop.backward != route.front().backward; });
}

Result<std::unique_ptr<StagedUpdate>> StageRoute(Stream& stream, const Backend& backend, const LiveMemory& live,
                                                 std::span<const Hop> route, const StagingOptions& options) {
  auto staged = std::make_unique<StagedUpdate>();
  staged->from = StartOf(route.front());
  staged->to = EndOf(route.back());
  staged->object_count = route.size();
  XORBIT_ASSIGN_OR_RETURN(staged->deltas, FetchRoute(stream, route, {options.threads, options.limit_bytes}));
  for (const Delta& delta : staged->deltas) staged->held_bytes += delta.total_file_bytes;
  staged->fetched_bytes = staged->held_bytes;
  if (route.size() > 1) {
    XORBIT_RETURN_IF_ERROR(Fold(stream.layout(), backend, live, route, options, staged.get()));
    return staged;
  }
  staged->direction = route.front().backward ? Direction::kInverse : Direction::kForward;
  return staged;
}

}  // namespace xorbit
