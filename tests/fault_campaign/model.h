// The weights of a world: a random model, what every version's bytes are whoever publishes it, and where ranks and engines keep
// them. All processes compute from one seed what they compare with, so no fault reaches it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fault_campaign/board.h"
#include "publish/ownership_plan.h"
#include "store/testing/stream_info_of.h"
#include "store/version_record.h"
#include "tensor/random_live_memory.h"

namespace xorbit::fault_campaign {

inline constexpr uint32_t kTrainerRanks = 2;
inline constexpr const char* kTrainerId = "trainer";  // publication ids: a trainer's weights of a version never change
inline constexpr const char* kRivalId = "rival";

class Model {
 public:
  explicit Model(Random& random) : layout_(RandomLayout(random, 6, 400)), base_(random, layout_) {
    for (const bool rival : {false, true}) {
      std::vector<RandomTensors>& states = rival ? rival_ : trainer_;
      states.push_back(base_);
      while (states.size() < kMaxVersions) {
        constexpr uint64_t kPerMille[] = {0, 5, 20, 100};
        RandomTensors next = states.back();
        next.Mutate(random, layout_, kPerMille[Between(random, 0, 3)]);
        states.push_back(std::move(next));
      }
    }
    MakePlans(random);
    LiveMapSpec whole = RandomLiveMap(random, layout_).spec();
    PlaceShadows(random, layout_, &whole);
    maps_.push_back(LiveMap::Make(layout_, whole).value());
    for (LiveMapSpec& spec : DealOut(random, whole, 2)) maps_.push_back(LiveMap::Make(layout_, std::move(spec)).value());
  }

  const Layout& layout() const { return layout_; }
  std::vector<ConstBytes> base() const { return base_.bytes(); }
  // What the trainer, or its rival, publishes as this version.
  std::vector<ConstBytes> state(bool rival, uint64_t version) const { return (rival ? rival_ : trainer_)[version].bytes(); }
  // What a committed version is.
  std::vector<ConstBytes> state(const VersionRecord& record) const {
    return state(record.publication_id == kRivalId, record.version);
  }
  const RankPlan& plan(uint32_t rank) const { return plans_[rank]; }
  const RankPlan& rival_plan() const { return rival_plan_; }
  const LiveMap& map(uint32_t actor) const { return maps_[actor - kLone]; }

  StreamInfo info() const {
    StreamInfo info = StreamInfoOf(layout_, base(), "run");
    info.resume_window = 8;
    return info;
  }

 private:
  // The trainer's ranks hold random shards, some of them both; the rival holds everything.
  void MakePlans(Random& random) {
    std::vector<std::vector<Part>> declared(kTrainerRanks);
    std::vector<std::vector<Part>> whole(1);
    for (uint32_t i = 0; i < layout_.tensors().size(); ++i) {
      const TensorSpec& tensor = layout_.tensors()[i];
      if (tensor.frozen || tensor.byte_count == 0) continue;
      whole[0].push_back({i, 0, {{tensor.unit_count(), 1}}});
      const auto split = RandomSplit(random, tensor, i, kTrainerRanks);
      for (uint32_t rank = 0; rank < kTrainerRanks; ++rank) {
        for (const Part& part : split[rank]) {
          declared[rank].push_back(part);
          if (random() % 4 == 0) declared[1 - rank].push_back(part);
        }
      }
    }
    plans_ = PlanOwnership(layout_, declared).value();
    rival_plan_ = PlanOwnership(layout_, whole).value().front();
  }

  Layout layout_;
  RandomTensors base_;
  std::vector<RandomTensors> trainer_;  // by version
  std::vector<RandomTensors> rival_;
  std::vector<RankPlan> plans_;
  RankPlan rival_plan_;
  std::vector<LiveMap> maps_;  // of the lone sampler, then of the pair
};

}  // namespace xorbit::fault_campaign
