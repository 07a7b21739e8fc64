// The demo's trainer: ranks on threads of this process, each with its shards, that publish one checkpoint after the other.
#pragma once

#include <vector>

#include "cli/command.h"
#include "publish/rank_publisher.h"
#include "store/stream.h"

namespace xorbit {

inline constexpr uint32_t kDemoTrainerRanks = 4;

// Movable; one thread at a time. The stream must outlive it.
class DemoTrainer {
 public:
  // `base` are the canonical tensors of version 0, in layout order.
  static Result<DemoTrainer> Make(const Runtime& runtime, Stream& stream, TensorBytes base);

  // All ranks publish these tensors, each from its own parts, as the version after the last one. Returns the payload bytes.
  Result<uint64_t> Publish(TensorBytes tensors);
  // Writes the folds that end in the newest version.
  Status Fold();

 private:
  explicit DemoTrainer(Stream& stream) : stream_(&stream) {}

  Stream* stream_;
  std::vector<std::vector<Part>> declared_;
  std::vector<RankPublisher> ranks_;
};

}  // namespace xorbit
