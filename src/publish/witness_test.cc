// Replicas that ranks hold of one another's parts, in threads and in processes: equal ones are published, and one that has
// drifted is refused by every rank, with the tensor's name and both ranks', before anything is decided.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cpu/cpu_backend.h"
#include "base/parallel.h"
#include "base/temporary_folder.h"
#include "delta/oracle.h"
#include "publish/decide.h"
#include "publish/rank_publisher.h"
#include "publish/shards.h"
#include "publish/testing/trainer.h"
#include "tensor/tensor_test_util.h"
#include "transport/folder_store.h"

namespace xorbit {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint32_t kRanks = 3;

// A tensor-parallel trainer: every rank holds the embedding and the norm, and a third of the matrix.
class WitnessTest : public testing::Test {
 protected:
  WitnessTest()
      : layout_(MakeLayout({Tensor("embed.weight", Dtype::kBF16, {64, 8}), Tensor("mlp.weight", Dtype::kBF16, {48, 8}),
                            Tensor("norm.weight", Dtype::kF32, {8})})),
        declared_(kRanks) {
    for (const TensorSpec& tensor : layout_.tensors()) weights_.emplace_back(tensor.byte_count, uint8_t{7});
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      declared_[rank] = {WholeTensor(layout_, 0), *RowShard(layout_, 1, {rank, kRanks}).value(), WholeTensor(layout_, 2)};
    }
    stream_.emplace(Stream::Create(*store_, StreamInfoOf(layout_, Tensors(), "run"), layout_).value());
    served_ = weights_;
    weights_[0][100] ^= 1;
    weights_[1][700] ^= 1;
    weights_[2][5] ^= 1;
  }

  std::vector<ConstBytes> Tensors() const { return {weights_.begin(), weights_.end()}; }

  // What one rank does, from its own memory; `drifted_tensor` of rank 2 is off by one bit.
  Result<VersionRecord> PublishAs(Stream& stream, uint32_t rank, const std::string& id,
                                  std::optional<uint32_t> drifted_tensor) const {
    std::vector<Buffer> memory = MemoryOf(layout_, declared_[rank], Tensors());
    for (size_t i = 0; i < memory.size(); ++i) {
      if (rank == 2 && declared_[rank][i].tensor_index == drifted_tensor) memory[i][20] ^= 1;
    }
    const std::vector<ConstBytes> served(served_.begin(), served_.end());
    RankPublisher publisher =
        RankPublisher::Make(stream, *backend_, PlanOwnership(layout_, declared_).value()[rank], served, {});
    XORBIT_RETURN_IF_ERROR(publisher.Contribute({0, 1, id}, ViewsOf(memory)));
    return SealAndDecide(stream, {0, 1, id}, {});
  }

  // Every rank's answer.
  std::vector<Result<VersionRecord>> InThreads(const std::string& id, std::optional<uint32_t> drifted_tensor) {
    std::vector<Result<VersionRecord>> answers(kRanks, Result<VersionRecord>(NotFoundError("")));
    const Status ran = ParallelFor(kRanks, kRanks, [&](uint64_t rank) {
      answers[rank] = PublishAs(*stream_, static_cast<uint32_t>(rank), id, drifted_tensor);
      return Status();
    });
    EXPECT_TRUE(ran.ok());
    return answers;
  }

  // How each rank's process ended: 0 decided, or the code of its error; its message is in the folder.
  std::vector<int> InProcesses(const std::string& id, std::optional<uint32_t> drifted_tensor) {
    std::vector<pid_t> children;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(LiveAsRank(rank, id, drifted_tensor));
      EXPECT_GT(child, 0);
      children.push_back(child);
    }
    std::vector<int> codes;
    for (const pid_t child : children) {
      int state = 0;
      EXPECT_EQ(::waitpid(child, &state, 0), child);
      codes.push_back(WIFEXITED(state) ? WEXITSTATUS(state) : -1);
    }
    return codes;
  }

  fs::path MessageFile(uint32_t rank) const { return folder_ / ("rank-" + std::to_string(rank)); }

  TemporaryFolder folder_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  std::unique_ptr<ObjectStore> store_ = OpenFolderStore(PosixFileOps(), folder_ / "store").value();
  Layout layout_;
  std::vector<std::vector<Part>> declared_;
  std::vector<Buffer> served_;
  std::vector<Buffer> weights_;
  std::optional<Stream> stream_;

 private:
  int LiveAsRank(uint32_t rank, const std::string& id, std::optional<uint32_t> drifted_tensor) const {
    auto store = OpenFolderStore(PosixFileOps(), folder_ / "store");
    if (!store.ok()) return 100;
    auto stream = Stream::Open(**store, "run");
    if (!stream.ok()) return 101;
    const auto answer = PublishAs(*stream, rank, id, drifted_tensor);
    if (answer.ok()) return answer->committed() ? 0 : 102;
    const std::string& message = answer.status().message();
    if (!WriteWholeFile(PosixFileOps(), MessageFile(rank), AsBytes(message)).ok()) return 103;
    return static_cast<int>(answer.status().code());
  }
};

TEST_F(WitnessTest, EqualReplicasInThreadsArePublished) {
  for (const auto& answer : InThreads("try", std::nullopt)) {
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(answer->target, OracleDigest(layout_, Tensors()));
  }
}

TEST_F(WitnessTest, ADriftedReplicaInThreadsIsRefusedByEveryRank) {
  for (const uint32_t tensor : {0U, 2U}) {
    const std::string id = "try-" + std::to_string(tensor);
    for (const auto& answer : InThreads(id, tensor)) {
      EXPECT_EQ(answer.status().code(), Code::kRefused);
      EXPECT_THAT(answer.status().message(), HasSubstr("tensor '" + layout_.tensors()[tensor].name +
                                                       "': rank 2 holds other values than rank 0; make the ranks equal"));
    }
    EXPECT_EQ(stream_->Record(1).value(), std::nullopt);
    EXPECT_EQ(stream_->Newest().value(), 0U);
  }
  // Made equal again, the same version takes them under a new id.
  for (const auto& answer : InThreads("equal", std::nullopt)) EXPECT_EQ(answer->target, OracleDigest(layout_, Tensors()));
}

TEST_F(WitnessTest, ADriftedReplicaInAProcessIsRefusedByEveryRank) {
  EXPECT_EQ(InProcesses("try", 2), std::vector<int>(kRanks, static_cast<int>(Code::kRefused)));
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const Buffer message = ReadWholeFile(MessageFile(rank), 1000).value();
    EXPECT_THAT(std::string(AsText(message)), AllOf(HasSubstr("'norm.weight'"), HasSubstr("rank 2"), HasSubstr("rank 0")));
  }
  EXPECT_EQ(stream_->Record(1).value(), std::nullopt);
  EXPECT_EQ(InProcesses("equal", std::nullopt), std::vector<int>(kRanks, 0));
  EXPECT_EQ(stream_->Record(1).value()->target, OracleDigest(layout_, Tensors()));
}

// A rank that was planned from another list of what there is would publish unseen.
TEST_F(WitnessTest, ARankThatKnowsOfNoReplicaIsNoticed) {
  const std::vector<ConstBytes> served(served_.begin(), served_.end());
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    RankPlan plan = PlanOwnership(layout_, declared_).value()[rank];
    if (rank != 0) plan.shared.clear();
    RankPublisher publisher = RankPublisher::Make(*stream_, *backend_, std::move(plan), served, {});
    ASSERT_TRUE(publisher.ContributeTensors({0, 1, "try"}, Tensors()).ok());
  }
  const auto answer = SealAndDecide(*stream_, {0, 1, "try"}, {});
  EXPECT_EQ(
      answer.status().message(),
      "tensor 'embed.weight': rank 0 says that others hold copies, but none bears witness; plan all ranks from one list of "
      "what they hold");
}

}  // namespace
}  // namespace xorbit
