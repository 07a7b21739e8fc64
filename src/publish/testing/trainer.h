// A trainer for tests: ranks that hold random shards of a random model, some of them twice, and change it from step to step.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "change/state_digest.h"
#include "codec/change_digest.h"
#include "delta/oracle.h"
#include "publish/ownership_plan.h"
#include "store/stream_info.h"
#include "tensor/random_model.h"

namespace xorbit {

class TestTrainer {
 public:
  TestTrainer(Random& random, uint32_t rank_count, uint64_t max_tensors = 10, uint64_t max_elements = 3'000)
      : layout_(RandomLayout(random, max_tensors, max_elements)),
        served_(random, layout_),
        weights_(random, layout_),
        declared_(rank_count) {
    weights_.CopyFrom(served_);
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

  StreamInfo stream(std::string id) const {
    StreamInfo info;
    info.stream_id = std::move(id);
    info.base_fingerprint = Sha256Of(AsBytes(info.stream_id));
    info.base = OracleDigest(layout_, served_.bytes());
    const std::vector<uint64_t> keys = TensorKeysOf(layout_);
    const std::vector<ConstBytes> bytes = served_.bytes();
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (layout_.tensors()[i].frozen) info.frozen += DigestOfRange(keys[i], 0, bytes[i]);
    }
    info.layout_digest = layout_.digest();
    return info;
  }

  void Step(Random& random, uint64_t per_mille) { weights_.Mutate(random, layout_, per_mille); }
  void CopyWeightsOf(const TestTrainer& other) { weights_.CopyFrom(other.weights_); }

  // The memory of a rank: its declared parts' bytes, each on its own.
  std::vector<Buffer> Held(uint32_t rank) const {
    const std::vector<ConstBytes> tensors = weights_.bytes();
    std::vector<Buffer> held;
    for (const Part& part : declared_[rank]) {
      const TensorSpec& tensor = layout_.tensors()[part.tensor_index];
      const uint64_t unit_bytes = UnitBytesOf(tensor.dtype);
      const SegmentMap map = SegmentMap::Make(layout_, static_cast<uint32_t>(unit_bytes), tensor.group, {part}).value();
      Buffer bytes;
      RunWalker walker(map, 0, map.element_count());
      Run run;
      while (walker.Next(&run)) {
        AppendBytes(bytes, tensors[part.tensor_index].subspan(run.tensor_element * unit_bytes, run.element_count * unit_bytes));
      }
      held.push_back(std::move(bytes));
    }
    return held;
  }

 private:
  Layout layout_;
  RandomTensors served_;
  RandomTensors weights_;
  std::vector<std::vector<Part>> declared_;
};

// Views of a rank's memory.
inline std::vector<ConstBytes> ViewsOf(const std::vector<Buffer>& held) { return {held.begin(), held.end()}; }

}  // namespace xorbit
