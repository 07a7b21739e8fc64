#include "publish/fold_publisher.h"

#include <optional>
#include <string>
#include <vector>

#include "store/fetch.h"
#include "store/fold_schedule.h"

namespace xorbit {
namespace {

// A fold that was planned before this one has been sealed by now; where it lies follows from what it is.
std::vector<Hop> Located(const Stream& stream, std::vector<Hop> hops) {
  for (Hop& hop : hops) {
    if (!hop.edge.manifest_key.empty()) continue;
    hop.edge.publication_id = kFoldPublicationId;
    hop.edge.manifest_key = ManifestKey(stream.info().stream_id, PlaceOf(hop.edge));
  }
  return hops;
}

// Every rank's share of one fold, sealed.
Status PublishFold(Stream& stream, std::span<RankPublisher> publishers, uint64_t from, uint64_t to,
                   const std::vector<Hop>& hops, const DecideOptions& options) {
  const PublicationPlace place = {from, to, std::string(kFoldPublicationId)};
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Delta> chain, FetchRoute(stream, Located(stream, hops), {}));
  for (RankPublisher& publisher : publishers) {
    XORBIT_RETURN_IF_ERROR(publisher.ContributeFold(place, chain.front().manifest.codec, chain));
  }
  return SealWhenComplete(stream, place, options).status();
}

}  // namespace

Result<size_t> PublishFolds(Stream& stream, std::span<RankPublisher> publishers, std::span<const uint64_t> marks,
                            const DecideOptions& options) {
  const uint64_t version = publishers.front().version();
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> committed, stream.CommittedVersions(version));
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
  XORBIT_ASSIGN_OR_RETURN(std::optional<Edge> edge, stream.FindEdge(from, to));
  if (edge) return std::move(*edge);
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Hop> route, stream.Route(from, to));
  // A rank that was faster may have sealed it meanwhile: the route is then the fold itself, whose shares are its own again.
  XORBIT_RETURN_IF_ERROR(PublishFold(stream, publishers, from, to, route, options));
  XORBIT_ASSIGN_OR_RETURN(edge, stream.FindEdge(from, to));
  if (edge) return std::move(*edge);
  return NotFoundError("the fold to version " + std::to_string(to) + " was removed");
}

}  // namespace xorbit
