// A server whose store is put back to an older copy, and published into again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/routes_fixture.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

class RewrittenStreamRoutesTest : public RoutesFixture {};

// It polls nothing: whoever asks for its info, or orders an update, has it look.
TEST_F(RewrittenStreamRoutesTest, IsNoticedWhenADriverAsks) {
  Start();
  model_.live().PublishAll();
  ASSERT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":4})").status, 200);
  model_.live().PutBackTo(2);
  EXPECT_EQ(Ask("GET", "/health").status, 200);
  EXPECT_EQ(Post("/get_gpu_delta_info").status, 409);
  EXPECT_THAT(Ask("GET", "/health").body, HasSubstr("has gone back behind version 4"));
  model_.live().PublishAll();
  const HttpReply info = Post("/get_gpu_delta_info");
  EXPECT_EQ(info.status, 409);
  EXPECT_THAT(info.body, HasSubstr("was rewritten: its version 4 is another state"));
  EXPECT_EQ(Read(info)["participants"][0]["applied_version"], 4);
  EXPECT_EQ(Ask("GET", "/health").status, 503);
  for (const char* target : {R"("latest")", "4", "3"}) {
    const HttpReply refused = Post("/update_weights_from_gpu_delta", R"({"target_version":)" + std::string(target) + "}");
    EXPECT_EQ(refused.status, 409) << target;
    EXPECT_THAT(refused.body, HasSubstr("was rewritten")) << target;
  }
  EXPECT_EQ(Post("/prepare_gpu_delta", OfSession(R"(,"target_version":3)")).status, 409);
  const HttpReply checked = Post("/weights_checker", R"({"action":"checksum"})");
  EXPECT_EQ(checked.status, 409);
  EXPECT_THAT(checked.body, HasSubstr("was rewritten"));
}

TEST_F(RewrittenStreamRoutesTest, IsNoticedByAnUpdateByTheCheckerAndByMetrics) {
  model_.live().PublishAll();
  for (const auto& [path, body] : {std::pair("/update_weights_from_gpu_delta", R"({"target_version":3})"),
                                   std::pair("/prepare_gpu_delta", R"({"session_id":"s","target_version":3})"),
                                   std::pair("/weights_checker", R"({"action":"checksum"})"), std::pair("/metrics", "")}) {
    model_.live().PublishAll();
    Start();
    ASSERT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":4})").status, 200);
    model_.live().PutBackTo(2);
    model_.live().PublishAll();
    (void)Ask(*body == '\0' ? "GET" : "POST", path, body);
    EXPECT_THAT(Ask("GET", "/health").body, HasSubstr("was rewritten")) << path;
    background_ = {};
  }
}

// What is prepared is not applied if its version is another one by then, or none.
TEST_F(RewrittenStreamRoutesTest, IsNoticedBeforeWhatIsPreparedIsApplied) {
  Start();
  for (const bool is_published_anew : {false, true}) {
    model_.live().PublishAll();
    const StateDigest prepared = model_.live().DigestOf(3);
    ASSERT_EQ(Post("/prepare_gpu_delta", OfSession(R"(,"target_version":3)")).status, 200);
    ASSERT_EQ(AwaitPrepared(), "PREPARED");
    EXPECT_EQ(Read(Post("/get_gpu_delta_status", OfSession()))["participants"][0]["target_state"], ToText(prepared));
    model_.live().PutBackTo(2);
    if (is_published_anew) model_.live().PublishAll();
    const HttpReply refused = Post("/apply_gpu_delta", OfSession());
    EXPECT_EQ(refused.status, 409);
    EXPECT_THAT(refused.body, HasSubstr("its version 3 is no more what was prepared here"));
    EXPECT_EQ(StateOf(refused), "FAILED");
    EXPECT_FALSE(served_->session().is_paused());
    EXPECT_TRUE(model_.Holds(*served_, 0));
    EXPECT_EQ(Ask("GET", "/health").status, 200);
    EXPECT_EQ(Post("/clear_gpu_delta_state").status, 200);
  }
  const HttpReply applied = Post("/update_weights_from_gpu_delta", R"({"target_version":3})");
  EXPECT_EQ(Read(applied)["participants"][0]["applied_state"], ToText(model_.live().DigestOf(3)));
  EXPECT_EQ(Read(applied)["participants"][0]["target_state"], ToText(model_.live().DigestOf(3)));
}

TEST_F(RewrittenStreamRoutesTest, AStoreThatIsAwayKeepsNobodyFromApplyingWhatIsProven) {
  Start();
  model_.live().PublishAll();
  ASSERT_EQ(Post("/prepare_gpu_delta", OfSession(R"(,"target_version":3)")).status, 200);
  ASSERT_EQ(AwaitPrepared(), "PREPARED");
  fs::rename(model_.folder() / "store", model_.folder() / "away");
  EXPECT_EQ(Post("/apply_gpu_delta", OfSession()).status, 200);
  EXPECT_EQ(Post("/resume_gpu_delta", OfSession()).status, 200);
  EXPECT_TRUE(model_.Holds(*served_, 3));
}

}  // namespace
}  // namespace xorbit
