#include "store/retention.h"

#include <algorithm>
#include <map>
#include <set>

#include "store/routes.h"

namespace xorbit {
namespace {

// Folds are aligned; a route near the oldest kept version may go round by the beginning of its block.
constexpr uint64_t kAlignment = 48;

// Which of `versions` the kept edges do not connect with the newest one.
std::vector<uint64_t> Unconnected(std::span<const uint64_t> versions, uint64_t newest, std::span<const Edge> edges) {
  std::map<uint64_t, std::vector<uint64_t>> neighbours;
  for (const Edge& edge : edges) {
    neighbours[edge.from].push_back(edge.to);
    neighbours[edge.to].push_back(edge.from);
  }
  std::set<uint64_t> reached = {newest};
  std::vector<uint64_t> open = {newest};
  while (!open.empty()) {
    const uint64_t version = open.back();
    open.pop_back();
    for (const uint64_t neighbour : neighbours[version]) {
      if (reached.insert(neighbour).second) open.push_back(neighbour);
    }
  }
  std::vector<uint64_t> missing;
  for (const uint64_t version : versions) {
    if (!reached.contains(version)) missing.push_back(version);
  }
  return missing;
}

}  // namespace

RetentionPlan PlanRetention(std::span<const uint64_t> committed, std::span<const Edge> edges, std::span<const uint64_t> anchors,
                            std::span<const uint64_t> marks, uint64_t resume_window, const RetentionPolicy& policy) {
  RetentionPlan plan;
  if (committed.empty()) return plan;
  const uint64_t newest = committed.back();
  const uint64_t version_count = std::clamp<uint64_t>(policy.version_count, 1, committed.size());
  const uint64_t resumable = newest + 1 - std::min(newest + 1, resume_window);
  const uint64_t oldest = std::min(committed[committed.size() - version_count], resumable) / kAlignment * kAlignment;

  std::set<uint64_t> starts(marks.begin(), marks.end());
  starts.insert(0);
  const size_t anchor_count = std::min<uint64_t>(policy.anchor_count, anchors.size());
  const std::span<const uint64_t> kept_anchors = anchors.last(anchor_count);
  starts.insert(kept_anchors.begin(), kept_anchors.end());

  std::vector<Edge> recent;
  for (const Edge& edge : edges) {
    if (edge.from >= oldest) recent.push_back(edge);
  }
  // Where a trainer went back to before `oldest`, the ways between newer versions lead through older ones.
  const auto first = std::lower_bound(committed.begin(), committed.end(), oldest);
  const std::vector<uint64_t> outside = Unconnected({first, committed.end()}, newest, recent);
  starts.insert(outside.begin(), outside.end());

  std::set<PublicationPlace> kept;
  bool anchored = false;
  for (const uint64_t start : starts) {
    const auto route = CheapestRoute(edges, start, newest);
    if (!route) continue;
    anchored = anchored || start == 0 || std::binary_search(kept_anchors.begin(), kept_anchors.end(), start);
    for (const Hop& hop : *route) kept.insert(PlaceOf(hop.edge));
  }
  if (!anchored) return plan;
  for (const Edge& edge : edges) {
    if (edge.from < oldest && !kept.contains(PlaceOf(edge))) plan.places.push_back(PlaceOf(edge));
  }
  std::sort(plan.places.begin(), plan.places.end());
  plan.anchors.assign(anchors.begin(), anchors.end() - static_cast<ptrdiff_t>(anchor_count));
  std::erase_if(plan.anchors, [&starts](uint64_t version) { return starts.contains(version); });
  return plan;
}

}  // namespace xorbit
