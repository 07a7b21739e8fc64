// Which replies of an engine, or of whatever answers in its place, mean that it has done what it was asked.
#include "server/engine_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xorbit {
namespace {

using testing::HasSubstr;
using testing::Not;

bool IsDone(const EngineCall& call, int status, const std::string& body) {
  HttpReply reply;
  reply.status = status;
  reply.body = body;
  return CheckReply(call, reply).ok();
}

TEST(EngineCallTest, ALoadIsBelievedOnlyByTheWordOfTheEngine) {
  const EngineCall sglang = LoadCall(EngineKind::kSglang, "/model", 3, {});
  const EngineCall vllm = LoadCall(EngineKind::kVllm, "/model", 3, {});
  EXPECT_TRUE(IsDone(sglang, 200, R"({"success": true, "message": "ok", "num_paused_requests": 0})"));
  EXPECT_TRUE(IsDone(vllm, 200, R"({"results": [null, null]})"));
  EXPECT_TRUE(IsDone(vllm, 200, ""));
  EXPECT_FALSE(IsDone(sglang, 200, R"({"results": [null]})"));
  EXPECT_FALSE(IsDone(sglang, 200, ""));
  for (const EngineCall& call : {sglang, vllm}) {
    for (const char* body : {"<html>login</html>", "{\"success\" : false}", "{\"success\":\n false}", R"({"success":0})",
                             R"({"success":"true"})", "[]", "true", "{\"success\":true", "{\"success\":true}{}"}) {
      EXPECT_FALSE(IsDone(call, 200, body)) << call.path << " " << body;
    }
    EXPECT_FALSE(IsDone(call, 204, ""));
    EXPECT_FALSE(IsDone(call, 302, ""));
    EXPECT_FALSE(IsDone(call, 500, R"({"success":true})"));
  }
}

TEST(EngineCallTest, OtherCallsAreDoneUnlessTheEngineComplains) {
  const EngineCall flush = FlushCall(EngineKind::kSglang);
  EXPECT_TRUE(IsDone(flush, 200, "Cache flushed.\nPlease check backend logs for more details."));
  EXPECT_TRUE(IsDone(flush, 200, ""));
  EXPECT_TRUE(IsDone(flush, 200, R"({"success":true})"));
  EXPECT_FALSE(IsDone(flush, 200, "{\"success\" : false}"));
  EXPECT_FALSE(IsDone(flush, 400, ""));
}

TEST(EngineCallTest, ModesOfAPauseGoByEitherEnginesName) {
  const auto vllm = [](std::string_view mode) { return PauseCallNamed(EngineKind::kVllm, mode).value().path; };
  EXPECT_EQ(vllm(""), "/pause?mode=abort");
  EXPECT_EQ(vllm("abort"), "/pause?mode=abort");
  EXPECT_EQ(vllm("wait"), "/pause?mode=wait");
  for (const char* mode : {"keep", "in_place", "retract"}) EXPECT_EQ(vllm(mode), "/pause?mode=keep&clear_cache=false");
  const auto sglang = [](std::string_view mode) { return PauseCallNamed(EngineKind::kSglang, mode).value().body; };
  EXPECT_EQ(sglang(""), "{}");
  EXPECT_EQ(sglang("keep"), R"({"mode":"in_place"})");
  for (const std::string mode : {"abort", "retract", "in_place"}) EXPECT_EQ(sglang(mode), R"({"mode":")" + mode + R"("})");
  EXPECT_EQ(PauseCallNamed(EngineKind::kSglang, "wait").status().code(), Code::kUnsupported);
}

TEST(EngineCallTest, SaysWhatToDoAboutAnEngineThatLacksAnEndpointOrWantsAKey) {
  HttpReply reply;
  reply.body = R"({"detail":"Not Found"})";
  const auto message = [&](EngineKind kind, int status) {
    reply.status = status;
    return CheckReply(ContinueCall(kind), reply).message();
  };
  EXPECT_THAT(message(EngineKind::kVllm, 404), HasSubstr("VLLM_SERVER_DEV_MODE=1"));
  EXPECT_THAT(message(EngineKind::kVllm, 500), Not(HasSubstr("VLLM_SERVER_DEV_MODE")));
  EXPECT_THAT(message(EngineKind::kSglang, 404), Not(HasSubstr("VLLM_SERVER_DEV_MODE")));
  EXPECT_THAT(message(EngineKind::kSglang, 401), HasSubstr("--engine-token-file"));
}

TEST(EngineCallTest, ReadsTheVersionThatAnEngineNames) {
  HttpReply reply;
  reply.body = R"({"model_path":"/m","tokenizer_path":"/m","is_generation":true,"weight_version":"7"})";
  const EngineCall question = LabelQuestion(EngineKind::kSglang);
  EXPECT_EQ(LabelIn(question, reply).value(), "7");
  reply.body = R"({"weight_version":8})";
  EXPECT_EQ(LabelIn(question, reply).value(), "8");
  for (const char* body : {"{}", R"({"model_path":"/m"})", R"({"weight_version":null})"}) {
    reply.body = body;
    EXPECT_EQ(LabelIn(question, reply).value(), std::nullopt) << body;
  }
  reply.status = 404;
  EXPECT_EQ(LabelIn(question, reply).value(), std::nullopt);
}

TEST(EngineCallTest, AReplyThatIsNotTheEnginesDoesNotTellThatItNamesNone) {
  const EngineCall question = LabelQuestion(EngineKind::kSglang);
  HttpReply reply;
  for (const char* body : {"", "null", "[]", R"(["weight_version"])", "<html>login</html>", R"({"success":false})"}) {
    reply.body = body;
    EXPECT_THAT(LabelIn(question, reply).status().message(), HasSubstr("/model_info answered 200")) << body;
  }
  reply.body = R"({"weight_version":"7"})";
  for (const int status : {302, 401, 403, 429, 500, 502, 503}) {
    reply.status = status;
    EXPECT_FALSE(LabelIn(question, reply).ok()) << status;
  }
}

}  // namespace
}  // namespace xorbit
