#include "publish/fold_publisher.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "store/fetch.h"
#include "store/fold_schedule.h"

namespace xorbit {
namespace {

Result<std::vector<uint64_t>> CommittedVersions(Stream& stream, uint64_t newest) {
  std::vector<uint64_t> versions;
  for (uint64_t version = 0; version <= newest; ++version) {
    XORBIT_ASSIGN_OR_RETURN(const auto record, stream.Record(version));
    if (record && record->committed()) versions.push_back(version);
  }
  return versions;
}

// A fold that was planned before this one has been sealed by now; where it lies follows from what it is.
Edge Located(const Stream& stream, Edge edge) {
  if (!edge.manifest_key.empty()) return edge;
  edge.publication_id = kFoldPublicationId;
  edge.manifest_key = ManifestKey(stream.info().stream_id, PlaceOf(edge));
  return edge;
}

Result<std::vector<Delta>> FetchChain(Stream& stream, const std::vector<Hop>& chain) {
  std::vector<Delta> deltas;
  for (const Hop& hop : chain) {
    XORBIT_ASSIGN_OR_RETURN(Delta delta, FetchDelta(stream, Located(stream, hop.edge), {}));
    deltas.push_back(std::move(delta));
  }
  return deltas;
}

// Every rank's share of one fold, sealed.
Status PublishFold(Stream& stream, std::span<RankPublisher> publishers, uint64_t from, uint64_t to,
                   const std::vector<Hop>& hops, const DecideOptions& options) {
  const PublicationPlace place = {from, to, std::string(kFoldPublicationId)};
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Delta> chain, FetchChain(stream, hops));
  for (RankPublisher& publisher : publishers) {
    XORBIT_RETURN_IF_ERROR(publisher.ContributeFold(place, chain.front().manifest.codec, chain));
  }
  return SealWhenComplete(stream, place, options).status();
}

Result<std::optional<Edge>> FindEdge(Stream& stream, uint64_t from, uint64_t to) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Edge> edges, stream.Edges(from, to));
  const auto found = std::ranges::find_if(edges, [&](const Edge& edge) { return edge.from == from && edge.to == to; });
  return found == edges.end() ? std::optional<Edge>() : std::optional<Edge>(*found);
}

}  // namespace

Result<size_t> PublishFolds(Stream& stream, std::span<RankPublisher> publishers, std::span<const uint64_t> marks,
                            const DecideOptions& options) {
  const uint64_t version = publishers.front().version();
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> committed, CommittedVersions(stream, version));
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Edge> edges, stream.Edges(0, version));
  const std::vector<PlannedFold> folds = PlanFolds(committed, edges, marks);
  for (const PlannedFold& fold : folds) {
    XORBIT_RETURN_IF_ERROR(PublishFold(stream, publishers, fold.from, fold.to, fold.chain, options));
  }
  return folds.size();
}

Result<Edge> PublishFoldFrom(Stream& stream, std::span<RankPublisher> publishers, uint64_t from, const DecideOptions& options) {
  const uint64_t to = publishers.front().version();
  if (from >= to) return UsageError("there is no fold from version " + std::to_string(from) + " to " + std::to_string(to));
  XORBIT_ASSIGN_OR_RETURN(std::optional<Edge> edge, FindEdge(stream, from, to));
  if (edge) return std::move(*edge);
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Hop> route, stream.Route(from, to));
  // A rank that was faster may have sealed it meanwhile: the route is then the fold itself, whose shares are its own again.
  XORBIT_RETURN_IF_ERROR(PublishFold(stream, publishers, from, to, route, options));
  XORBIT_ASSIGN_OR_RETURN(edge, FindEdge(stream, from, to));
  if (edge) return std::move(*edge);
  return NotFoundError("the fold to version " + std::to_string(to) + " was removed");
}

}  // namespace xorbit
