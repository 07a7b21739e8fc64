// A delta between two versions, as the planners of routes, folds and retention see it.
#pragma once

#include <cstdint>
#include <string>

#include "store/store_keys.h"

namespace xorbit {

// Usable both ways: a delta is its own inverse. from < to.
struct Edge {
  uint64_t from = 0;
  uint64_t to = 0;
  std::string publication_id;
  uint64_t byte_count = 0;  // all that a receiver fetches: manifest and payloads
  std::string manifest_key;
  friend bool operator==(const Edge&, const Edge&) = default;
};

// One step of a route: an edge, and in which direction.
struct Hop {
  Edge edge;
  bool backward = false;  // from edge.to to edge.from
  friend bool operator==(const Hop&, const Hop&) = default;
};

inline uint64_t StartOf(const Hop& hop) { return hop.backward ? hop.edge.to : hop.edge.from; }
inline uint64_t EndOf(const Hop& hop) { return hop.backward ? hop.edge.from : hop.edge.to; }

inline PublicationPlace PlaceOf(const Edge& edge) { return {edge.from, edge.to, edge.publication_id}; }

}  // namespace xorbit
