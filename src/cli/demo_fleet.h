// The second act of the demo: the same updates as a living stream, from trainer ranks that hold shards to samplers that hold
// the weights each in its own layout; one joins late, one is killed, one goes back.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/command.h"

namespace xorbit {

struct FleetReport {
  std::string text;
  Json rows = Json::array();
  std::vector<std::string> proofs;
};

// Publishes checkpoints[1], [2], ... as versions of a new stream in the folder `store`, of which checkpoints[0] is version 0,
// and proves at the end that every sampler holds its version bit for bit. All checkpoints have one layout; at least two.
Result<FleetReport> RunFleet(const Runtime& runtime, const fs::path& store, const std::vector<fs::path>& checkpoints);

}  // namespace xorbit
