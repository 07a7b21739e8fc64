#include "drive/drive.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "base/parallel.h"
#include "base/steady_clock.h"
#include "base/stopwatch.h"
#include "base/text.h"

namespace xorbit {
namespace {

constexpr std::chrono::seconds kStorePatience{60};
constexpr int kIdDigits = 8;

int64_t NowMs() { return SteadyNs() / 1'000'000; }

std::string NewSyncId(uint64_t version, bool is_strict) {
  std::random_device random;
  return SessionIdOf(is_strict, std::to_string(version) + "-" + ToHex(random(), kIdDigits) + ToHex(random(), kIdDigits));
}

DriveRules RulesOf(const DriveRequest& request) {
  DriveRules rules = request.rules;
  rules.wants_newest = !request.version;
  return rules;
}

// One round, with the machine that its threads share.
class Round {
 public:
  Round(Stream& stream, const DriveRequest& request, const VersionRecord& target, const std::vector<bool>& is_required)
      : request_(request),
        options_{request.token, {stream.info().stream_id, ToHex(stream.info().base_fingerprint)}},
        sync_id_(NewSyncId(target.version, request.rules.is_strict)),
        update_(RulesOf(request), options_.stream, {target.version, ToText(target.target)}, sync_id_, is_required, NowMs()) {}

  DriveReport Run(const std::stop_token& stop) {
    const Stopwatch watch;
    const std::stop_callback giving_up(stop, [this] {
      const std::lock_guard lock(mutex_);
      Change([&] { update_.GiveUp("the driver was stopped", NowMs()); });
    });
    const uint64_t count = request_.engines.size();
    (void)ParallelFor(static_cast<int>(count), count, [&](uint64_t index) -> Status {
      RunEngine(index);
      return {};
    });
    DriveReport report;
    report.version = update_.target();
    report.sync_id = sync_id_;
    report.abort_reason = update_.abort_reason();
    report.newer_version = update_.newer_version();
    report.engines = update_.engines();
    report.seconds = watch.seconds();
    return report;
  }

 private:
  void RunEngine(uint64_t index) {
    std::unique_lock lock(mutex_);
    for (;;) {
      DriveOrder order;
      Change([&] { order = update_.Next(index, NowMs()); });  // the time alone may decide what concerns the others too
      if (order.step == DriveStep::kOver) return;
      if (order.step == DriveStep::kWait) {
        Wait(lock, order.wake_ms);
        continue;
      }
      lock.unlock();
      const EngineReply reply = CallEngine(request_.engines[index], options_, request_.rules, order, sync_id_);
      lock.lock();
      Change([&] { update_.NoteReply(index, order.step, reply, NowMs()); });
    }
  }

  // mutex_ is held. Wakes the others only for what they wait for: all of them for every reply would take time from engines
  // whose gates are closed.
  template <typename Body>
  void Change(Body&& change) {
    const DrivenUpdate::Outlook before = update_.outlook();
    change();
    if (update_.outlook() != before) changed_.notify_all();
  }

  void Wait(std::unique_lock<std::mutex>& lock, int64_t wake_ms) {
    changed_.wait_for(lock, std::chrono::milliseconds(std::clamp<int64_t>(wake_ms - NowMs(), 1, 1'000)));
  }

  const DriveRequest& request_;
  CallerOptions options_;
  std::string sync_id_;
  std::mutex mutex_;
  std::condition_variable changed_;
  DrivenUpdate update_;  // guarded by mutex_
};

// Read anew, for the store may have been put back: a round must mean the state that the version is now.
Result<VersionRecord> TargetOf(Stream& stream, std::optional<uint64_t> version) {
  if (!version) {
    XORBIT_ASSIGN_OR_RETURN(version, stream.Newest());
  } else {
    XORBIT_RETURN_IF_ERROR(stream.RecordAnew(*version).status());
  }
  return stream.CommittedRecord(*version);
}

// What people and programs must hear of: anything but another look at engines that stand as they stood.
bool IsNews(const DriveReport& last, const DriveReport& now) {
  if (last.version != now.version || last.engines.size() != now.engines.size()) return true;
  for (size_t i = 0; i < now.engines.size(); ++i) {
    if (last.engines[i].standing != now.engines[i].standing) return true;
    if (now.engines[i].was_recovered) return true;
  }
  return false;
}

}  // namespace

bool DriveReport::all_current() const {
  return std::ranges::all_of(engines, [](const DrivenEngine& engine) { return engine.standing == Standing::kCurrent; });
}

Result<DriveReport> DriveOnce(Stream& stream, const DriveRequest& request, const std::stop_token& stop) {
  XORBIT_ASSIGN_OR_RETURN(VersionRecord target, TargetOf(stream, request.version));
  const std::vector<bool> is_required(request.engines.size(), true);
  for (;;) {
    DriveReport report = Round(stream, request, target, is_required).Run(stop);
    if (!report.newer_version || stop.stop_requested()) return report;
    XORBIT_ASSIGN_OR_RETURN(target, TargetOf(stream, std::nullopt));
    if (target.version <= report.version) return report;
  }
}

Status DriveOn(Stream& stream, const DriveRequest& request, const std::stop_token& stop,
               const std::function<void(const DriveReport& report)>& report) {
  std::mutex mutex;
  std::condition_variable_any never;
  const auto sleep = [&] {
    std::unique_lock lock(mutex);
    never.wait_for(lock, stop, request.poll_interval, [] { return false; });
  };
  std::vector<bool> is_required(request.engines.size(), true);
  DriveReport last;
  auto store_heard = std::chrono::steady_clock::now();
  auto checked = store_heard;
  while (!stop.stop_requested()) {
    const Result<VersionRecord> newest = TargetOf(stream, std::nullopt);
    const auto now = std::chrono::steady_clock::now();
    if (!newest.ok()) {
      if (now - store_heard > kStorePatience) return newest.status();
      sleep();
      continue;
    }
    store_heard = now;
    const bool is_new = last.engines.empty() || newest->version != last.version;
    if (!is_new && now - checked < request.check_interval) {
      sleep();
      continue;
    }
    const DriveReport current = Round(stream, request, *newest, is_required).Run(stop);
    checked = std::chrono::steady_clock::now();
    for (size_t i = 0; i < is_required.size(); ++i) is_required[i] = current.engines[i].standing != Standing::kDropped;
    // Where another driver is ahead there is a newer version, which is looked for at once.
    const Result<uint64_t> newer = current.newer_version ? stream.Newest() : Result<uint64_t>(current.version);
    const bool is_overtaken = newer.ok() && *newer > current.version;
    if (!is_overtaken && IsNews(last, current)) report(current);
    last = current;
  }
  return {};
}

}  // namespace xorbit
