// A trainer for tests: ranks that hold random shards of a random model, some of them twice, and change it from step to step.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "delta/oracle.h"
#include "publish/ownership_plan.h"
#include "store/testing/stream_info_of.h"
#include "tensor/random_model.h"
#include "tensor/segment_bytes.h"

namespace xorbit {

// What a rank that holds these parts has in memory: each part's bytes on their own.
inline std::vector<Buffer> MemoryOf(const Layout& layout, const std::vector<Part>& parts,
                                    const std::vector<ConstBytes>& tensors) {
  std::vector<Buffer> held;
  for (const Part& part : parts) {
    const TensorSpec& tensor = layout.tensors()[part.tensor_index];
    const uint32_t unit_bytes = UnitBytesOf(tensor.dtype);
    const SegmentMap map = SegmentMap::Make(layout, unit_bytes, tensor.group, {part}).value();
    const SegmentBytes bytes = SegmentBytes::InTensors(map, tensors);
    Buffer& memory = held.emplace_back();
    RunWalker walker(map, 0, map.element_count());
    Run run;
    while (walker.Next(&run)) AppendBytes(memory, bytes.Of(run));
  }
  return held;
}

// Views of a rank's memory.
inline std::vector<ConstBytes> ViewsOf(const std::vector<Buffer>& held) { return {held.begin(), held.end()}; }

class TestTrainer {
 public:
  TestTrainer(Random& random, uint32_t rank_count, uint64_t max_tensors = 10, uint64_t max_elements = 3'000)
      : layout_(RandomLayout(random, max_tensors, max_elements)), served_(random, layout_), weights_(random, layout_) {
    weights_.CopyFrom(served_);
    Reshard(random, rank_count);
  }

  // Deals the model out anew.
  void Reshard(Random& random, uint32_t rank_count) {
    declared_.assign(rank_count, {});
    for (uint32_t i = 0; i < layout_.tensors().size(); ++i) {
      const TensorSpec& tensor = layout_.tensors()[i];
      if (tensor.frozen || tensor.byte_count == 0) continue;
      const auto split = RandomSplit(random, tensor, i, rank_count);
      for (uint32_t rank = 0; rank < rank_count; ++rank) {
        declared_[rank].insert(declared_[rank].end(), split[rank].begin(), split[rank].end());
        // A quarter of the parts is held by another rank as well.
        for (const Part& part : split[rank]) {
          const auto other = static_cast<uint32_t>(Between(random, 0, rank_count - 1));
          if (other != rank && random() % 4 == 0) declared_[other].push_back(part);
        }
      }
    }
  }

  const Layout& layout() const { return layout_; }
  uint32_t rank_count() const { return static_cast<uint32_t>(declared_.size()); }
  std::vector<ConstBytes> served() const { return served_.bytes(); }
  std::vector<ConstBytes> weights() const { return weights_.bytes(); }
  const std::vector<std::vector<Part>>& declared() const { return declared_; }
  std::vector<RankPlan> plans() const { return PlanOwnership(layout_, declared_).value(); }
  StateDigest digest() const { return OracleDigest(layout_, weights_.bytes()); }

  StreamInfo stream(std::string id) const { return StreamInfoOf(layout_, served_.bytes(), std::move(id)); }

  void Step(Random& random, uint64_t per_mille) { weights_.Mutate(random, layout_, per_mille); }
  void SetWeights(const RandomTensors& weights) { weights_.CopyFrom(weights); }
  const RandomTensors& state() const { return weights_; }

  std::vector<Buffer> Held(uint32_t rank) const { return MemoryOf(layout_, declared_[rank], weights_.bytes()); }

 private:
  Layout layout_;
  RandomTensors served_;
  RandomTensors weights_;
  std::vector<std::vector<Part>> declared_;
};

}  // namespace xorbit
