#include "store/routes.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/checked_math.h"

namespace xorbit {
namespace {

constexpr uint32_t kNoHop = UINT32_MAX;

// A way to a node: what it costs, and its last hop.
struct Way {
  uint64_t byte_count = 0;
  uint32_t object_count = 0;
  uint32_t edge = kNoHop;
  bool backward = false;
  bool reached = false;
};

struct Arc {
  uint32_t source;
  uint32_t target;
  uint32_t edge;
  bool backward;
  uint64_t byte_count;
};

struct Graph {
  std::vector<uint64_t> versions;  // ascending: node numbers
  std::vector<Arc> arcs;           // in an order that does not depend on the caller's

  std::optional<uint32_t> NodeOf(uint64_t version) const {
    const auto at = std::lower_bound(versions.begin(), versions.end(), version);
    if (at == versions.end() || *at != version) return std::nullopt;
    return static_cast<uint32_t>(at - versions.begin());
  }
};

Graph MakeGraph(std::span<const Edge> edges) {
  Graph graph;
  for (const Edge& edge : edges) {
    graph.versions.push_back(edge.from);
    graph.versions.push_back(edge.to);
  }
  std::sort(graph.versions.begin(), graph.versions.end());
  graph.versions.erase(std::unique(graph.versions.begin(), graph.versions.end()), graph.versions.end());
  std::vector<uint32_t> order(edges.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&edges](uint32_t a, uint32_t b) {
    return std::tie(edges[a].from, edges[a].to, edges[a].byte_count, edges[a].publication_id) <
           std::tie(edges[b].from, edges[b].to, edges[b].byte_count, edges[b].publication_id);
  });
  for (const uint32_t i : order) {
    const uint32_t from = *graph.NodeOf(edges[i].from);
    const uint32_t to = *graph.NodeOf(edges[i].to);
    graph.arcs.push_back({from, to, i, false, edges[i].byte_count});
    graph.arcs.push_back({to, from, i, true, edges[i].byte_count});
  }
  return graph;
}

// Bellman and Ford, layer by layer: layers[h] holds the best ways of at most h hops. Stops early when nothing improves.
std::vector<std::vector<Way>> MakeLayers(const Graph& graph, uint32_t source, uint32_t object_limit) {
  std::vector<std::vector<Way>> layers(1, std::vector<Way>(graph.versions.size()));
  layers[0][source].reached = true;
  for (uint32_t hop = 1; hop <= object_limit; ++hop) {
    const std::vector<Way>& last = layers.back();
    std::vector<Way> next = last;
    bool improved = false;
    for (const Arc& arc : graph.arcs) {
      const Way& before = last[arc.source];
      if (!before.reached) continue;
      const auto byte_count = CheckedAdd(before.byte_count, arc.byte_count);
      Way& best = next[arc.target];
      if (!byte_count || (best.reached && std::tie(best.byte_count, best.object_count) <=
                                              std::make_tuple(*byte_count, before.object_count + 1))) {
        continue;
      }
      best = {*byte_count, before.object_count + 1, arc.edge, arc.backward, true};
      improved = true;
    }
    if (!improved) break;
    layers.push_back(std::move(next));
  }
  return layers;
}

}  // namespace

uint32_t ObjectLimit(uint64_t step_count) {
  if (step_count < 2) return 1;
  return static_cast<uint32_t>(std::floor(2 * std::log2(static_cast<double>(step_count)) + 1e-9));
}

std::optional<std::vector<Hop>> CheapestRoute(std::span<const Edge> edges, uint64_t from, uint64_t to, uint32_t object_limit) {
  std::vector<Hop> route;
  if (from == to) return route;
  const Graph graph = MakeGraph(edges);
  const auto source = graph.NodeOf(from);
  const auto target = graph.NodeOf(to);
  if (!source || !target) return std::nullopt;
  const std::vector<std::vector<Way>> layers = MakeLayers(graph, *source, object_limit);
  if (!layers.back()[*target].reached) return std::nullopt;
  // Back along the last hops: a way of h hops to a node continues a way of h - 1 hops in the layer where it was found.
  uint32_t node = *target;
  size_t layer = layers.size() - 1;
  while (node != *source) {
    while (layer > 0 && layers[layer - 1][node].reached && layers[layer - 1][node].edge == layers[layer][node].edge &&
           layers[layer - 1][node].object_count == layers[layer][node].object_count &&
           layers[layer - 1][node].byte_count == layers[layer][node].byte_count) {
      --layer;
    }
    const Way& way = layers[layer][node];
    const Edge& edge = edges[way.edge];
    route.push_back({edge, way.backward});
    node = *graph.NodeOf(way.backward ? edge.to : edge.from);
    --layer;
  }
  std::reverse(route.begin(), route.end());
  return route;
}

// Dijkstra: a long stream's route may have thousands of hops, too many for layers.
std::optional<std::vector<Hop>> CheapestRoute(std::span<const Edge> edges, uint64_t from, uint64_t to) {
  std::vector<Hop> route;
  if (from == to) return route;
  const Graph graph = MakeGraph(edges);
  const auto source = graph.NodeOf(from);
  const auto target = graph.NodeOf(to);
  if (!source || !target) return std::nullopt;
  std::vector<std::vector<uint32_t>> arcs_of(graph.versions.size());
  for (uint32_t i = 0; i < graph.arcs.size(); ++i) arcs_of[graph.arcs[i].source].push_back(i);

  using Key = std::tuple<uint64_t, uint32_t, uint32_t>;  // bytes, objects, node
  std::vector<Way> ways(graph.versions.size());
  std::set<Key> open = {{0, 0, *source}};
  ways[*source].reached = true;
  while (!open.empty()) {
    const auto [byte_count, object_count, node] = *open.begin();
    open.erase(open.begin());
    if (node == *target) break;
    for (const uint32_t i : arcs_of[node]) {
      const Arc& arc = graph.arcs[i];
      const auto sum = CheckedAdd(byte_count, arc.byte_count);
      Way& best = ways[arc.target];
      if (!sum || (best.reached && std::tie(best.byte_count, best.object_count) <= std::make_tuple(*sum, object_count + 1))) {
        continue;
      }
      if (best.reached) open.erase({best.byte_count, best.object_count, arc.target});
      best = {*sum, object_count + 1, arc.edge, arc.backward, true};
      open.insert({best.byte_count, best.object_count, arc.target});
    }
  }
  if (!ways[*target].reached) return std::nullopt;
  for (uint32_t node = *target; node != *source;) {
    const Edge& edge = edges[ways[node].edge];
    route.push_back({edge, ways[node].backward});
    node = *graph.NodeOf(ways[node].backward ? edge.to : edge.from);
  }
  std::reverse(route.begin(), route.end());
  return route;
}

uint64_t ByteCountOf(std::span<const Hop> route) {
  uint64_t sum = 0;
  for (const Hop& hop : route) sum += hop.edge.byte_count;
  return sum;
}

}  // namespace xorbit
