#include "publish/fold_publisher.h"

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

}  // namespace

Result<size_t> PublishFolds(Stream& stream, std::span<RankPublisher> publishers, std::span<const uint64_t> marks,
                            const DecideOptions& options) {
  const uint64_t version = publishers.front().version();
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> committed, CommittedVersions(stream, version));
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Edge> edges, stream.Edges(0, version));
  const std::vector<PlannedFold> folds = PlanFolds(committed, edges, marks);
  for (const PlannedFold& fold : folds) {
    const PublicationPlace place = {fold.from, fold.to, std::string(kFoldPublicationId)};
    XORBIT_ASSIGN_OR_RETURN(const std::vector<Delta> chain, FetchChain(stream, fold.chain));
    for (RankPublisher& publisher : publishers) {
      XORBIT_RETURN_IF_ERROR(publisher.ContributeFold(place, chain.front().manifest.codec, chain));
    }
    XORBIT_RETURN_IF_ERROR(SealWhenComplete(stream, place, options).status());
  }
  return folds.size();
}

}  // namespace xorbit
