// Followers reach the newest version; and what they and receivers do when the store is put back to an older copy, and published
// into again.
#include "receive/follower.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/parallel.h"
#include "receive/testing/receiver_fixture.h"

namespace xorbit {
namespace {

using std::chrono::milliseconds;

class FollowerTest : public ReceiverFixture {};
class RewrittenStreamReceiveTest : public ReceiverFixture {};

TEST_F(FollowerTest, FollowersReachTheNewestVersion) {
  LiveStream made(random_, *backend_, store_, 30);
  constexpr size_t follower_count = 8;
  std::vector<std::unique_ptr<WatchingEngine>> engines;
  std::vector<std::unique_ptr<Receiver>> receivers;
  std::vector<std::unique_ptr<Follower>> followers;
  std::vector<std::unique_ptr<CohortMember>> members;
  for (size_t i = 0; i < follower_count; ++i) {
    engines.push_back(
        std::make_unique<WatchingEngine>(random_, made, std::move(RandomRanks(random_, made.layout(), 1).front()), 0));
    members.push_back(AloneMember());
    receivers.push_back(Attach(made, *engines[i], *members[i], {}));
    ASSERT_NE(receivers.back(), nullptr);
    FollowerOptions options;
    options.poll_interval = milliseconds(1);
    followers.push_back(std::make_unique<Follower>(made.stream(), *receivers.back(), options));
  }
  std::stop_source stop;
  const auto all_at = [&](uint64_t version) {
    return std::ranges::all_of(followers, [&](const auto& follower) { return follower->status().version == version; });
  };
  const Status ran = ParallelFor(follower_count + 1, follower_count + 1, [&](uint64_t i) -> Status {
    if (i > 0) return followers[i - 1]->Run(stop.get_token());
    made.PublishAll();
    while (!all_at(30)) std::this_thread::sleep_for(milliseconds(1));
    stop.request_stop();
    return Status();
  });
  EXPECT_TRUE(ran.ok()) << ran.message();
  for (const auto& engine : engines) {
    EXPECT_EQ(engine->wrong_count(), 0);
    EXPECT_TRUE(engine->Holds(30));
  }
}

TEST_F(RewrittenStreamReceiveTest, RefusesUpdatesOfAStreamThatWasRewritten) {
  LiveStream made(random_, *backend_, store_, 6);
  while (made.stream().Newest().value() < 4) made.Publish();
  WatchingEngine engine = MakeEngine(made, 4);
  const auto receiver = Attach(made, engine, *alone_, {}, 4);
  ASSERT_NE(receiver, nullptr);
  made.PutBackTo(2);
  made.PublishAll();
  for (const uint64_t target : {6, 5, 3, 0}) {
    const Status status = receiver->Prepare(target);
    EXPECT_EQ(status.code(), Code::kRefused);
    EXPECT_NE(status.message().find("was rewritten: its version 4"), std::string::npos) << status.message();
  }
  EXPECT_EQ(receiver->state(), SyncState::kIdle);
  EXPECT_TRUE(engine.Holds(4));
}

// Versions that it only knows of do not bind it.
TEST_F(RewrittenStreamReceiveTest, GoesOnWhereOnlyVersionsThatItNeverHeldWereRewritten) {
  LiveStream made(random_, *backend_, store_, 4);
  made.PublishAll();
  WatchingEngine engine = MakeEngine(made, 3);
  const auto receiver = Attach(made, engine, *alone_, {}, 3);
  ASSERT_NE(receiver, nullptr);
  ASSERT_TRUE(receiver->Prepare(4).ok());
  receiver->Abort();
  made.PutBackTo(3);
  made.PublishAll();
  EXPECT_FALSE(receiver->Prepare(4).ok());  // by what is remembered; then all is read anew
  const Status again = receiver->Prepare(4);
  EXPECT_TRUE(again.ok()) << again.message();
  receiver->Abort();
}

// As over weights that somebody knows to be damaged.
TEST_F(FollowerTest, UpdatesOnlyWhileItMay) {
  LiveStream made(random_, *backend_, store_, 3);
  WatchingEngine engine = MakeEngine(made);
  const auto receiver = Attach(made, engine, *alone_, {});
  ASSERT_NE(receiver, nullptr);
  made.Publish();
  std::atomic<bool> may = false;
  FollowerOptions options;
  options.poll_interval = options.first_back_off = options.last_back_off = milliseconds(1);
  options.may_update = [&] { return may ? Status() : RefusedError("damaged"); };
  Follower follower(made.stream(), *receiver, options);
  std::stop_source stop;
  const Status ran = ParallelFor(2, 2, [&](uint64_t i) -> Status {
    if (i == 0) return follower.Run(stop.get_token());
    while (follower.status().failed_count < 3) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(follower.status().version, 0);
    EXPECT_EQ(follower.status().last_error, "damaged");
    may = true;
    while (follower.status().version == 0) std::this_thread::sleep_for(milliseconds(1));
    stop.request_stop();
    return Status();
  });
  EXPECT_TRUE(ran.ok()) << ran.message();
  EXPECT_EQ(follower.status().version, made.stream().Newest().value());
}

TEST_F(FollowerTest, NoticesThatItsStreamWasRewritten) {
  LiveStream made(random_, *backend_, store_, 5);
  WatchingEngine engine = MakeEngine(made);
  const auto receiver = Attach(made, engine, *alone_, {});
  ASSERT_NE(receiver, nullptr);
  while (made.stream().Newest().value() < 4) made.Publish();
  FollowerOptions options;
  options.poll_interval = milliseconds(1);
  options.last_back_off = milliseconds(10);
  Follower follower(made.stream(), *receiver, options);
  std::stop_source stop;
  const auto await = [](const auto& condition) {
    while (!condition()) std::this_thread::sleep_for(milliseconds(1));
  };
  const Status ran = ParallelFor(2, 2, [&](uint64_t i) -> Status {
    if (i == 0) return follower.Run(stop.get_token());
    await([&] { return follower.status().version == 4; });
    EXPECT_EQ(follower.status().rewritten, "");
    made.PutBackTo(2);
    await([&] { return follower.status().rewritten.find("has gone back") != std::string::npos; });
    made.Publish();
    made.Publish();
    await([&] { return follower.status().rewritten.find("was rewritten") != std::string::npos; });
    made.Publish();
    await([&] { return follower.status().newest == 5 && !follower.status().last_error.empty(); });
    EXPECT_NE(follower.status().rewritten, "");
    stop.request_stop();
    return Status();
  });
  EXPECT_TRUE(ran.ok()) << ran.message();
  EXPECT_TRUE(engine.Holds(4));
  EXPECT_EQ(follower.status().applied_count + follower.status().skipped_count, 1);
}

}  // namespace
}  // namespace xorbit
