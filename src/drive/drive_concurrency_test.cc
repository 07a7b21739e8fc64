// The driver against real servers over loopback.
#include "drive/drive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "server/testing/served_model.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

class DriveTest : public testing::Test {
 protected:
  void StartEngines(size_t count) {
    for (size_t i = 0; i < count; ++i) StartEngine(i);
  }
  void StartEngine(size_t index) {
    if (servers_.size() <= index) servers_.resize(index + 1);
    Server& server = servers_[index];
    model_.request().engine_id = "engine-" + std::to_string(index);
    model_.request().port = server.port;
    server.served = model_.Start();
    server.port = server.served->port();
    server.thread = std::jthread([served = server.served.get()] { EXPECT_TRUE(served->Run().ok()); });
  }
  void StopEngine(size_t index) {
    servers_[index].served->Stop();
    servers_[index].thread.join();
    servers_[index].served.reset();
  }
  void TearDown() override {
    for (size_t i = 0; i < servers_.size(); ++i) {
      if (servers_[i].served != nullptr) StopEngine(i);
    }
  }

  DriveRequest Request(bool is_strict = true) {
    DriveRequest request;
    request.rules.is_strict = is_strict;
    request.rules.silence_ms = 1'000;
    request.check_interval = std::chrono::milliseconds(50);
    for (const Server& server : servers_) {
      request.engines.push_back({"http://127.0.0.1:" + std::to_string(server.port), {"127.0.0.1", server.port}});
    }
    return request;
  }
  void ExpectAllServe(uint64_t version) {
    for (const Server& server : servers_) {
      EXPECT_EQ(server.served->session().version(), version);
      EXPECT_FALSE(server.served->session().is_paused());
      EXPECT_TRUE(model_.Holds(*server.served, version));
    }
  }

  struct Server {
    uint16_t port = 0;
    std::unique_ptr<ServedSampler> served;
    std::jthread thread;
  };
  ServedModel model_;
  std::vector<Server> servers_;
};

TEST_F(DriveTest, AllTogetherOrEachByItself) {
  StartEngines(3);
  model_.live().PublishAll();
  Stream stream = Stream::Open(model_.store(), "").value();
  DriveRequest request = Request();
  request.version = 2;
  Result<DriveReport> report = DriveOnce(stream, request);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->all_current()) << report->abort_reason;
  ExpectAllServe(2);
  request = Request(/*is_strict=*/false);
  report = DriveOnce(stream, request);
  ASSERT_TRUE(report.ok() && report->all_current());
  ExpectAllServe(4);
  request.version = 99;
  EXPECT_EQ(DriveOnce(stream, request).status().code(), Code::kRefused);
}

TEST_F(DriveTest, ADeadEngineKeepsAStrictCohortAndNotTheOthers) {
  StartEngines(3);
  model_.live().PublishAll();
  Stream stream = Stream::Open(model_.store(), "").value();
  StopEngine(1);
  const DriveReport strict = DriveOnce(stream, Request()).value();
  EXPECT_FALSE(strict.all_current());
  EXPECT_THAT(strict.abort_reason, HasSubstr("engine 2"));
  EXPECT_TRUE(model_.Holds(*servers_[0].served, 0));
  const DriveReport each = DriveOnce(stream, Request(/*is_strict=*/false)).value();
  EXPECT_FALSE(each.all_current());
  StartEngine(1);
  EXPECT_FALSE(servers_[1].served->session().Readiness().ok());  // no traffic before it is current
  EXPECT_TRUE(DriveOnce(stream, Request()).value().all_current());
  EXPECT_TRUE(servers_[1].served->session().Readiness().ok());
  ExpectAllServe(4);
}

TEST_F(DriveTest, AnEngineWhoseWeightsAreDamagedIsNotCurrent) {
  StartEngines(2);
  Stream stream = Stream::Open(model_.store(), "").value();
  const std::span<const MutableBytes> regions = servers_[1].served->sampler().memory().live().regions;
  std::ranges::find_if(regions, [](MutableBytes region) { return !region.empty(); })->front() ^= 1;
  ASSERT_TRUE(servers_[1].served->session().Checksum().ok());
  for (const bool is_strict : {true, false}) {
    const DriveReport report = DriveOnce(stream, Request(is_strict)).value();
    EXPECT_EQ(report.version, 0U);
    EXPECT_EQ(report.engines[1].standing, Standing::kDropped);
    EXPECT_THAT(report.engines[1].why, HasSubstr("live memory is not version 0"));
  }
}

// As where a driver has died, and the store was put back and published into again before the next one begins.
TEST_F(DriveTest, WhatIsPreparedToAnotherStateOfTheVersionIsNotJoined) {
  for (const bool is_strict : {true, false}) {
    StartEngines(2);
    model_.live().PublishAll();
    Stream stream = Stream::Open(model_.store(), "").value();
    SessionOrder order;
    order.session_id = "of a dead driver";
    order.target_version = 3;
    order.lease = std::chrono::minutes(1);
    SamplerSession& first = servers_[0].served->session();
    ASSERT_TRUE(first.Prepare(order).ok());
    while (first.receipt().state == SessionState::kPreparing) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(first.receipt().state, SessionState::kPrepared);
    model_.live().PutBackTo(2);
    model_.live().PublishAll();
    DriveRequest request = Request(is_strict);
    request.version = 3;
    const DriveReport report = DriveOnce(stream, request).value();
    EXPECT_EQ(report.engines[0].standing, Standing::kDropped);
    EXPECT_THAT(report.engines[0].why, HasSubstr("version 3 is another state there"));
    EXPECT_EQ(first.version(), 0U);
    const DriveReport again = DriveOnce(stream, request).value();
    EXPECT_TRUE(again.all_current()) << again.abort_reason;
    ExpectAllServe(3);
    for (size_t i = 0; i < 2; ++i) StopEngine(i);
  }
}

// As when an orchestrator is started again while the old one still runs, and somebody drives by hand beside both.
TEST_F(DriveTest, SeveralDriversDoNotHurtEachOther) {
  StartEngines(3);
  Stream stream = Stream::Open(model_.store(), "").value();
  std::mutex mutex;
  std::string trouble;
  const auto note = [&](const DriveReport& report) {
    if (report.all_current()) return;
    const std::lock_guard lock(mutex);
    trouble += report.abort_reason;
    for (const DrivenEngine& engine : report.engines) trouble += "; " + engine.why;
  };
  {
    std::vector<std::jthread> drivers;
    for (int i = 0; i < 2; ++i) {
      drivers.emplace_back([&](const std::stop_token& stop) { EXPECT_TRUE(DriveOn(stream, Request(), stop, note).ok()); });
    }
    for (uint64_t version = 1; version <= 4; ++version) {
      model_.live().Publish();
      const DriveReport report = DriveOnce(stream, Request(/*is_strict=*/version != 2)).value();
      note(report);
      EXPECT_EQ(report.version, version);
    }
  }
  EXPECT_EQ(trouble, "");
  ExpectAllServe(4);
}

TEST_F(DriveTest, AnEngineThatTakesFewRequestsIsAskedWhenItSays) {
  model_.request().requests_per_second = 2;
  StartEngines(2);
  model_.live().PublishAll();
  Stream stream = Stream::Open(model_.store(), "").value();
  for (const uint64_t version : {1, 2}) {
    DriveRequest request = Request();
    request.version = version;
    const DriveReport report = DriveOnce(stream, request).value();
    EXPECT_TRUE(report.all_current()) << report.abort_reason;
  }
  ExpectAllServe(2);
}

TEST_F(DriveTest, AWrongTokenIsSaidAndNoVersionMadeUp) {
  model_.request().access.admin_token = "secret";
  StartEngines(1);
  Stream stream = Stream::Open(model_.store(), "").value();
  DriveRequest request = Request();
  DriveReport report = DriveOnce(stream, request).value();
  EXPECT_THAT(report.engines[0].why, HasSubstr("--token-file"));
  EXPECT_FALSE(report.engines[0].is_heard);
  request.token = "guess";
  EXPECT_THAT(DriveOnce(stream, request).value().engines[0].why, HasSubstr("is not its admin token"));
  request.token = "secret";
  EXPECT_TRUE(DriveOnce(stream, request).value().all_current());
}

TEST_F(DriveTest, FollowingWhileAnEngineGoesAndComesBack) {
  StartEngines(3);
  Stream stream = Stream::Open(model_.store(), "").value();
  std::mutex mutex;
  std::vector<DriveReport> reports;
  const auto await_current = [&](uint64_t version) {
    for (int i = 0; i < 6'000; ++i) {
      {
        const std::lock_guard lock(mutex);
        if (!reports.empty() && reports.back().version == version && reports.back().all_current()) return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    FAIL() << "never all at version " << version;
  };
  std::jthread driver([&](const std::stop_token& stop) {
    EXPECT_TRUE(DriveOn(stream, Request(), stop, [&](const DriveReport& report) {
                  const std::lock_guard lock(mutex);
                  reports.push_back(report);
                }).ok());
  });
  await_current(0);
  model_.live().Publish();
  await_current(1);
  StopEngine(2);
  model_.live().Publish();
  StartEngine(2);
  await_current(2);
  ExpectAllServe(2);
}

}  // namespace
}  // namespace xorbit
