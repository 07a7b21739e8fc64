#include "cli/demo_trainer.h"

#include <fmt/core.h>

#include "base/parallel.h"
#include "publish/decide.h"
#include "publish/fold_publisher.h"
#include "publish/shards.h"

namespace xorbit {
namespace {

// Matrices cut over the ranks as FSDP does it; what is not a matrix is held by all of them.
Result<std::vector<std::vector<Part>>> DeclareShards(const Layout& layout) {
  std::vector<std::vector<Part>> declared(kDemoTrainerRanks);
  for (uint32_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    if (tensor.byte_count == 0) continue;
    for (uint32_t rank = 0; rank < kDemoTrainerRanks; ++rank) {
      if (tensor.shape.size() < 2) {
        declared[rank].push_back(WholeTensor(layout, i));
        continue;
      }
      XORBIT_ASSIGN_OR_RETURN(const auto part, FlatShard(layout, i, {rank, kDemoTrainerRanks}));
      if (part) declared[rank].push_back(*part);
    }
  }
  return declared;
}

// A rank's memory at one checkpoint: its own parts and nothing else.
std::vector<ConstBytes> HeldBytes(const Layout& layout, const std::vector<Part>& parts, TensorBytes tensors) {
  std::vector<ConstBytes> held;
  for (const Part& part : parts) {
    const uint64_t unit_bytes = UnitBytesOf(layout.tensors()[part.tensor_index].dtype);
    held.push_back(tensors[part.tensor_index].subspan(part.origin * unit_bytes, part.element_count() * unit_bytes));
  }
  return held;
}

}  // namespace

Result<DemoTrainer> DemoTrainer::Make(const Runtime& runtime, Stream& stream, TensorBytes base) {
  DemoTrainer trainer(stream);
  XORBIT_ASSIGN_OR_RETURN(trainer.declared_, DeclareShards(stream.layout()));
  XORBIT_ASSIGN_OR_RETURN(std::vector<RankPlan> plans, PlanOwnership(stream.layout(), trainer.declared_));
  for (RankPlan& plan : plans) {
    trainer.ranks_.push_back(RankPublisher::Make(stream, *runtime.backend, std::move(plan), base, PublishOptions{}));
  }
  return trainer;
}

Result<uint64_t> DemoTrainer::Publish(TensorBytes tensors) {
  const uint64_t version = ranks_.front().version() + 1;
  const PublicationPlace place = {version - 1, version, fmt::format("step-{}", version)};
  XORBIT_RETURN_IF_ERROR(ParallelFor(kDemoTrainerRanks, kDemoTrainerRanks, [&](uint64_t rank) -> Status {
    XORBIT_RETURN_IF_ERROR(ranks_[rank].Contribute(place, HeldBytes(stream_->layout(), declared_[rank], tensors)));
    XORBIT_ASSIGN_OR_RETURN(const VersionRecord decided, SealAndDecide(*stream_, place, {}));
    return ranks_[rank].Settle(decided).status();
  }));
  XORBIT_ASSIGN_OR_RETURN(const Edge edge, stream_->StepEdge(version));
  return edge.byte_count;
}

Status DemoTrainer::Fold() {
  constexpr uint64_t kMarks[] = {0};
  return PublishFolds(*stream_, ranks_, kMarks, {}).status();
}

}  // namespace xorbit
