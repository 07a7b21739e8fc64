// The life of a rank: join the others, keep house (folds, checkpoints), publish the next version; and the disk that kills it.
#include "trainer_processes/rank.h"

#include <csignal>

#include "backend/cpu/cpu_backend.h"
#include "base/testing/forwarding_file_ops.h"
#include "publish/decide.h"
#include "publish/fold_publisher.h"
#include "publish/testing/trainer.h"
#include "publish/trainer_checkpoint.h"
#include "store/fetch.h"
#include "transport/folder_store.h"

namespace xorbit::trainer_processes {
namespace {

constexpr DecideOptions kPatience = {.deadline = std::chrono::seconds(60), .poll_interval = std::chrono::milliseconds(1)};

// Kills its process before the call that the board says, a write after half of its bytes.
class DyingFileOps final : public ForwardingFileOps {
 public:
  explicit DyingFileOps(std::atomic<int64_t>& calls_left) : calls_left_(calls_left) {}

  Result<UniqueFd> Create(const fs::path& path, bool exclusive) override {
    DieIfDue();
    return ForwardingFileOps::Create(path, exclusive);
  }
  Status Pwrite(const UniqueFd& fd, ConstBytes bytes, uint64_t offset_bytes) override {
    if (IsDue()) {
      static_cast<void>(ForwardingFileOps::Pwrite(fd, bytes.first(bytes.size() / 2), offset_bytes));
      ::raise(SIGKILL);
    }
    return ForwardingFileOps::Pwrite(fd, bytes, offset_bytes);
  }
  Status Sync(const UniqueFd& fd) override {
    DieIfDue();
    return ForwardingFileOps::Sync(fd);
  }
  Status SyncFolder(const fs::path& folder) override {
    DieIfDue();
    return ForwardingFileOps::SyncFolder(folder);
  }
  Status MakeFolder(const fs::path& folder) override {
    DieIfDue();
    return ForwardingFileOps::MakeFolder(folder);
  }
  Status Rename(const fs::path& from, const fs::path& to) override {
    DieIfDue();
    return ForwardingFileOps::Rename(from, to);
  }
  Status RenameNoReplace(const fs::path& from, const fs::path& to) override {
    DieIfDue();
    return ForwardingFileOps::RenameNoReplace(from, to);
  }
  Status Link(const fs::path& from, const fs::path& to) override {
    DieIfDue();
    return ForwardingFileOps::Link(from, to);
  }
  Status Unlink(const fs::path& path) override {
    DieIfDue();
    return ForwardingFileOps::Unlink(path);
  }

 private:
  bool IsDue() { return calls_left_ > 0 && --calls_left_ == 0; }
  void DieIfDue() {
    if (IsDue()) ::raise(SIGKILL);
  }

  std::atomic<int64_t>& calls_left_;
};

class Rank {
 public:
  Rank(const Place& place, Model& model, const Life& life, Stream& stream, FileOps& ops, RankPublisher publisher)
      : place_(place), model_(model), life_(life), stream_(stream), ops_(ops), publisher_(std::move(publisher)) {}

  Status Run() {
    while (true) {
      // In this order: what is decided between the two calls shows in the second.
      XORBIT_ASSIGN_OR_RETURN(const uint64_t next, stream_.NextFree());
      XORBIT_RETURN_IF_ERROR(JoinTheOthers());
      if (publisher_.version() >= next) continue;
      XORBIT_RETURN_IF_ERROR(KeepHouse());
      if (next > place_.board->last_version) return {};
      XORBIT_RETURN_IF_ERROR(Publish(next));
    }
  }

 private:
  // A rank that was killed finds the others where its life's versions have come to, perhaps by what it had delivered itself.
  Status JoinTheOthers() {
    XORBIT_ASSIGN_OR_RETURN(const uint64_t newest, stream_.Newest());
    XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> record, stream_.Record(newest));
    if (record->publication_id != IdOfLife(life_.number) || newest == publisher_.version()) return {};
    XORBIT_ASSIGN_OR_RETURN(const FetchedRoute way, FetchWay(stream_, publisher_.version(), newest, {}));
    return publisher_.CatchUp(newest, way.deltas);
  }

  // What all ranks do once they stand at a version. Done twice it is done once.
  Status KeepHouse() {
    const uint64_t version = publisher_.version();
    if (version == 0 || version == kept_at_) return {};
    constexpr uint64_t kMarks[] = {0};
    XORBIT_RETURN_IF_ERROR(PublishFolds(stream_, {&publisher_, 1}, kMarks, kPatience).status());
    if (version % kSaveEvery == 0) {
      XORBIT_RETURN_IF_ERROR(PublishFoldFrom(stream_, {&publisher_, 1}, 0, kPatience).status());
      if (publisher_.plan().owner_index == 0) {
        const fs::path folder = place_.checkpoints / std::to_string(version);
        if (const Status made = ops_.MakeFolder(folder); !made.ok() && made.code() != Code::kExists) return made;
        const Status saved = SaveTrainerCheckpoint(ops_, stream_, version, folder);
        if (!saved.ok() && saved.code() != Code::kExists) return saved;
      }
    }
    kept_at_ = version;
    return {};
  }

  Status Publish(uint64_t version) {
    XORBIT_ASSIGN_OR_RETURN(const RandomTensors* parent, model_.At(stream_, publisher_.version()));
    const RandomTensors weights = model_.Step(*parent, life_.number, version);
    const uint32_t rank = publisher_.plan().owner_index;
    const std::vector<Buffer> held = MemoryOf(model_.layout(), model_.Declare(life_.rank_count)[rank], weights.bytes());
    const PublicationPlace to = {publisher_.version(), version, IdOfLife(life_.number)};
    XORBIT_RETURN_IF_ERROR(publisher_.Contribute(to, ViewsOf(held)));
    XORBIT_ASSIGN_OR_RETURN(const VersionRecord decided, SealAndDecide(stream_, to, kPatience));
    XORBIT_ASSIGN_OR_RETURN(const bool won, publisher_.Settle(decided));
    return won ? Status() : CorruptError("version " + std::to_string(version) + " was decided otherwise");
  }

  const Place& place_;
  Model& model_;
  const Life& life_;
  Stream& stream_;
  FileOps& ops_;
  RankPublisher publisher_;
  uint64_t kept_at_ = 0;
};

}  // namespace

Status LiveAsRank(const Place& place, Model& model, const Life& life, uint32_t rank) {
  DyingFileOps ops(place.board->calls_left[rank]);
  XORBIT_ASSIGN_OR_RETURN(const std::unique_ptr<ObjectStore> store, OpenFolderStore(ops, place.store));
  XORBIT_ASSIGN_OR_RETURN(Stream stream, Stream::Open(*store, ""));
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  XORBIT_ASSIGN_OR_RETURN(std::vector<RankPlan> plans, PlanOwnership(model.layout(), model.Declare(life.rank_count)));
  const auto publisher = [&]() -> Result<RankPublisher> {
    if (life.checkpoint.empty()) return RankPublisher::Make(stream, *backend, std::move(plans[rank]), model.served(), {});
    return ResumeRank(stream, *backend, std::move(plans[rank]), model.served(), {}, life.checkpoint);
  };
  XORBIT_ASSIGN_OR_RETURN(RankPublisher made, publisher());
  return Rank(place, model, life, stream, ops, std::move(made)).Run();
}

}  // namespace xorbit::trainer_processes
