// That calls which wait leave room for those that look.
#include "server/dispatch.h"

#include <gtest/gtest.h>

#include <latch>
#include <thread>
#include <vector>

namespace xorbit {
namespace {

struct WaitingSession {
  std::optional<uint64_t> version() const { return 1; }
  std::latch entered{CallSlots::kCount};
  std::latch may_go{1};
};

HttpReply Wait(WaitingSession& session, const ControlFields& /*fields*/) {
  session.entered.count_down();
  session.may_go.wait();
  return {};
}

HttpReply Look(WaitingSession& /*session*/, const ControlFields& /*fields*/) { return {}; }

constexpr RouteOf<WaitingSession> kTable[] = {{"POST", "/wait", Role::kAdmin, Wait, "waits"},
                                              {"GET", "/look", Role::kRead, Look, "looks"}};

TEST(DispatchTest, CallsThatWaitLeaveRoomForThoseThatLook) {
  WaitingSession session;
  RateLimit limit(0, {});
  const auto ask = [&](const std::string& method, const std::string& path) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    return DispatchTo<WaitingSession>(kTable, session, {}, limit, request);
  };
  std::vector<std::jthread> waiting;
  for (int i = 0; i < CallSlots::kCount; ++i) waiting.emplace_back([&] { EXPECT_EQ(ask("POST", "/wait").status, 200); });
  session.entered.wait();
  const HttpReply refused = ask("POST", "/wait");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.retry_after_seconds, 1);
  EXPECT_EQ(ask("GET", "/look").status, 200);
  session.may_go.count_down();
  waiting.clear();
  EXPECT_EQ(ask("POST", "/wait").status, 200);
}

TEST(DispatchTest, RequestsWithoutARouteHaveARateToo) {
  WaitingSession session;
  RateLimit limit(1, {});
  HttpRequest request;
  request.method = "GET";
  request.path = "/nowhere";
  EXPECT_EQ(DispatchTo<WaitingSession>(kTable, session, {}, limit, request).status, 404);
  EXPECT_EQ(DispatchTo<WaitingSession>(kTable, session, {}, limit, request).status, 429);
  request.path = "/look";
  EXPECT_EQ(DispatchTo<WaitingSession>(kTable, session, {}, limit, request).status, 200);
  request.of_web_page = true;
  EXPECT_EQ(DispatchTo<WaitingSession>(kTable, session, {}, limit, request).status, 429);
}

}  // namespace
}  // namespace xorbit
