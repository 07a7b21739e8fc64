// Lives of trainers, samplers and the collector: loops of steps, each of which may fail, behind stores that are made to.
#include "fault_campaign/actors.h"

#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "base/steady_clock.h"
#include "fault_campaign/watching_engine.h"
#include "publish/decide.h"
#include "publish/fold_publisher.h"
#include "publish/rank_publisher.h"
#include "receive/receiver.h"
#include "receive/store_cohort.h"
#include "store/fetch.h"
#include "store/gc.h"
#include "transport/folder_store.h"

namespace xorbit::fault_campaign {
namespace {

using std::chrono::milliseconds;

// A step has a deadline, which the campaign watches.
class Step {
 public:
  explicit Step(Seat& seat) : seat_(seat) { seat_.step_began_ns = SteadyNs(); }
  ~Step() { seat_.step_began_ns = 0; }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

 private:
  Seat& seat_;
};

void Note(Seat& seat, const Status& status) {
  const std::string& message = status.message();
  const size_t length = std::min(message.size(), seat.last_error.size() - 1);
  std::copy_n(message.begin(), length, seat.last_error.begin());
  seat.last_error[length] = '\0';
}

// A folder store behind an actor's faults.
struct Access {
  Access(const Place& place, const fs::path& root) : disk(place.seat()) {
    auto opened = OpenFolderStore(place.recorder != nullptr ? *place.recorder : disk, root);
    status = opened.status();
    if (!opened.ok()) return;
    folder = std::move(opened).value();
    store = std::make_unique<FaultyStore>(*folder, place.board, place.seat(), place.seed);
  }
  FullDisk disk;
  Status status;
  std::unique_ptr<ObjectStore> folder;
  std::unique_ptr<FaultyStore> store;
};

// --- trainers ---

struct Trainer {
  const Place& place;
  Stream& stream;
  RankPublisher& publisher;
  bool is_rival;
  uint64_t failed_version = 0;
  int failure_count = 0;
  uint64_t contributed = 0;  // the version, if any, whose decision the baseline waits for

  Status CatchUp() {
    if (contributed != 0) {
      XORBIT_ASSIGN_OR_RETURN(const std::optional<VersionRecord> decided, stream.Record(contributed));
      if (decided) XORBIT_RETURN_IF_ERROR(Settle(*decided).status());
    }
    XORBIT_ASSIGN_OR_RETURN(const uint64_t newest, stream.Newest());
    if (newest == publisher.version()) return {};
    XORBIT_ASSIGN_OR_RETURN(const FetchedRoute way, FetchWay(stream, publisher.version(), newest, {}));
    return publisher.CatchUp(newest, way.deltas);
  }

  Result<bool> Settle(const VersionRecord& decided) {
    contributed = 0;
    NoteDecision(place.board, decided);
    return publisher.Settle(decided);
  }

  Status Publish(const PublicationPlace& to) {
    XORBIT_RETURN_IF_ERROR(publisher.ContributeTensors(to, place.model.state(is_rival, to.target_version)));
    contributed = to.target_version;
    const DecideOptions options{milliseconds(200), milliseconds(2), /*abort_at_deadline=*/false};
    XORBIT_ASSIGN_OR_RETURN(const VersionRecord decided, SealAndDecide(stream, to, options));
    XORBIT_ASSIGN_OR_RETURN(const bool won, Settle(decided));
    if (!won || is_rival) return {};
    constexpr uint64_t kMarks[] = {0};
    // A fold less costs readers bytes, nothing else.
    static_cast<void>(PublishFolds(stream, {&publisher, 1}, kMarks, {.deadline = milliseconds(50)}));
    return {};
  }

  // The next version; given up if it cannot be had in three tries, as when its publication is damaged for good.
  Status Next() {
    const Step step(place.seat());
    XORBIT_RETURN_IF_ERROR(CatchUp());
    XORBIT_ASSIGN_OR_RETURN(const uint64_t next, stream.NextFree());
    if (next >= kMaxVersions) return {};
    if (failed_version != next) failure_count = 0;
    if (failure_count >= 3) {
      XORBIT_ASSIGN_OR_RETURN(const VersionRecord decided, stream.Decide(AbortRecord(next)));
      NoteDecision(place.board, decided);
      return {};
    }
    failed_version = next;
    ++failure_count;
    XORBIT_RETURN_IF_ERROR(Publish({publisher.version(), next, is_rival ? kRivalId : kTrainerId}));
    failure_count = 0;
    return {};
  }
};

// Until something goes wrong; then the trainer starts again from the served checkpoint and the store, as a new process would.
Status Train(const Place& place, Stream& stream, const Backend& backend, Random& random) {
  const bool is_rival = place.actor == kRival;
  const RankPlan& plan = is_rival ? place.model.rival_plan() : place.model.plan(place.actor - kTrainer0);
  RankPublisher publisher = RankPublisher::Make(stream, backend, plan, place.model.base(), {});
  Trainer trainer{.place = place, .stream = stream, .publisher = publisher, .is_rival = is_rival};
  for (int failure_count = 0; failure_count < 12 && place.goes_on();) {
    const Status status = trainer.Next();
    failure_count = status.ok() ? 0 : failure_count + 1;
    if (!status.ok()) Note(place.seat(), status);
    std::this_thread::sleep_for(milliseconds(Between(random, 2, 10)));
  }
  return {};
}

// --- samplers ---

Status Follow(const Place& place, Stream& stream, Receiver& receiver, Random& random) {
  while (place.goes_on() && receiver.state() != SyncState::kBroken) {
    Status status;
    {
      const Step step(place.seat());
      status = [&]() -> Status {
        XORBIT_ASSIGN_OR_RETURN(uint64_t target, stream.Newest());
        if (receiver.is_alone() && random() % 8 == 0) target = Between(random, 0, target);  // back for a moment
        XORBIT_RETURN_IF_ERROR(receiver.Sync(target));
        return random() % 16 == 0 ? receiver.Verify() : Status();
      }();
    }
    if (!status.ok()) Note(place.seat(), status);
    std::this_thread::sleep_for(milliseconds(Between(random, 1, 5)));
  }
  return {};
}

Status Sample(const Place& place, Stream& stream, const Backend& backend, Random& random) {
  const Access meeting(place, place.cohort);
  XORBIT_RETURN_IF_ERROR(meeting.status);
  std::unique_ptr<CohortMember> member = AloneMember();
  if (place.actor != kLone) {
    CohortOptions options;
    options.rank = place.actor - kPair0;
    options.rank_count = 2;
    options.prepare_patience = milliseconds(300);
    options.pause_patience = milliseconds(300);
    XORBIT_ASSIGN_OR_RETURN(member, MakeStoreCohort(*meeting.store, options));
  }
  WatchingEngine engine(place, stream);
  std::unique_ptr<Receiver> receiver;
  {
    const Step step(place.seat());
    XORBIT_ASSIGN_OR_RETURN(receiver, Receiver::Attach(stream, backend, engine.memory(), engine, *member, {}, 0));
  }
  return Follow(place, stream, *receiver, random);
}

// --- the collector ---

Status Collect(const Place& place, Stream& stream, Random& random) {
  constexpr uint64_t kMarks[] = {0};
  while (place.goes_on()) {
    Status status;
    {
      const Step step(place.seat());
      status = CollectGarbage(stream, {{kKeptVersions, 1}, kMarks, /*grace_ns=*/100'000'000}).status();
    }
    if (!status.ok()) Note(place.seat(), status);
    std::this_thread::sleep_for(milliseconds(Between(random, 10, 40)));
  }
  return {};
}

}  // namespace

void NoteDecision(Board& board, const VersionRecord& record) {
  if (record.version >= kMaxVersions) return;
  const Sha256Digest digest = Sha256Of(AsBytes(WriteVersionRecord(record)));
  uint64_t seen = 1;
  for (size_t i = 0; i < 7; ++i) seen = seen << 8 | digest[i];
  uint64_t before = 0;
  if (!board.decisions[record.version].compare_exchange_strong(before, seen) && before != seen) ++board.changed_count;
}

int Live(const Place& place) {
  Random random(place.seed);
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  while (place.goes_on()) {
    const Access access(place, place.store);
    Status status = access.status;
    if (status.ok()) {
      Result<Stream> stream = Stream::Open(*access.store, "run");
      status = stream.status();
      if (stream.ok()) {
        if (IsSampler(place.actor)) {
          status = Sample(place, *stream, *backend, random);
        } else if (place.actor == kCollector) {
          status = Collect(place, *stream, random);
        } else {
          status = Train(place, *stream, *backend, random);
        }
        if (IsSampler(place.actor)) {
          if (!status.ok()) Note(place.seat(), status);
          return kNeedsReload;
        }
      }
    }
    if (!status.ok()) Note(place.seat(), status);
    std::this_thread::sleep_for(milliseconds(Between(random, 2, 10)));
  }
  return 0;
}

}  // namespace xorbit::fault_campaign
