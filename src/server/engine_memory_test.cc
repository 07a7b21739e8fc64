// What an engine's server is asked around an update, and what is left of it when it does not do as it is told.
#include "server/engine_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/noting_engine.h"

namespace xorbit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Memory with a gate that can be told to fail.
class GateOnly final : public ServedMemory {
 public:
  explicit GateOnly(std::vector<std::string>* seen) : seen_(seen) {}
  const LiveMemory& live() const override { return live_; }
  Status Close(Deadline /*deadline*/) override {
    seen_->push_back("close");
    return fails ? RefusedError("steps are inside") : Status();
  }
  void Open(uint64_t version) override { seen_->push_back("open " + std::to_string(version)); }
  std::optional<FoundReaders> found() const override { return standing; }
  void NoteCleanCaches(uint64_t version) override { seen_->push_back("clean " + std::to_string(version)); }
  bool fails = false;
  std::optional<FoundReaders> standing;

 private:
  LiveMemory live_;
  std::vector<std::string>* seen_;
};

class EngineMemoryTest : public testing::Test {
 protected:
  // The engine's first pause, as a former server has left it, to version 0.
  void Begin(EngineKind kind, KvPolicy policy, std::optional<ServedMemory::FoundReaders> found) {
    auto gate = std::make_unique<GateOnly>(&gate_seen_);
    gate_ = gate.get();
    gate_->standing = found;
    memory_ = std::make_unique<EngineMemory>(std::move(gate), engine_.Options(kind, policy));
    EXPECT_TRUE(Close().ok());
    memory_->Open(0);
    EXPECT_TRUE(memory_->Readiness().ok()) << memory_->Readiness().message();
  }
  EngineMemory& Make(EngineKind kind, KvPolicy policy) {
    Begin(kind, policy, std::nullopt);
    engine_.Take();
    gate_seen_.clear();
    return *memory_;
  }
  Status Close() { return memory_->Close(std::chrono::steady_clock::now() + std::chrono::seconds(20)); }

  NotingEngine engine_;
  std::vector<std::string> gate_seen_;
  std::unique_ptr<EngineMemory> memory_;
  GateOnly* gate_ = nullptr;
};

TEST_F(EngineMemoryTest, AnUpdateOfSglang) {
  EngineMemory& memory = Make(EngineKind::kSglang, KvPolicy::kFlush);
  ASSERT_TRUE(Close().ok());
  memory.Open(1);
  EXPECT_THAT(engine_.Take(), ElementsAre(R"(/pause_generation {"mode":"retract"})", "/flush_cache",
                                          R"(/update_weight_version {"new_version":"1","abort_all_requests":false})",
                                          R"(/continue_generation {"torch_empty_cache":false})"));
  EXPECT_THAT(gate_seen_, ElementsAre("close", "open 1", "clean 1"));
  const EnginePause pause = memory.last_pause();
  EXPECT_EQ(pause.start_version, 0U);
  EXPECT_EQ(pause.end_version, 1U);
  EXPECT_TRUE(pause.has_flushed);
  EXPECT_EQ(pause.cache_namespace, "");
  // A pause without an update flushes nothing.
  ASSERT_TRUE(Close().ok());
  memory.Open(1);
  EXPECT_EQ(engine_.Take().size(), 2U);
  EXPECT_EQ(memory.phase_seconds().count("fence"), 1U);
}

TEST_F(EngineMemoryTest, AnUpdateOfVllm) {
  EngineMemory& memory = Make(EngineKind::kVllm, KvPolicy::kFlush);
  ASSERT_TRUE(Close().ok());
  memory.Open(1);
  EXPECT_THAT(engine_.Take(),
              ElementsAre("/pause?mode=keep&clear_cache=false", "/reset_prefix_cache?reset_running_requests=true",
                          R"(/update_weight_version {"new_version":"1","abort_all_requests":false})", "/resume"));
  EXPECT_FALSE(memory.last_pause().has_aborted_all);
}

TEST_F(EngineMemoryTest, KeepingNamesAnotherPlaceForPrefixes) {
  EngineMemory& memory = Make(EngineKind::kVllm, KvPolicy::kKeep);
  ASSERT_TRUE(Close().ok());
  memory.Open(7);
  EXPECT_THAT(engine_.Take(),
              ElementsAre("/pause?mode=keep&clear_cache=false",
                          R"(/update_weight_version {"new_version":"7","abort_all_requests":false})", "/resume"));
  EXPECT_EQ(memory.last_pause().cache_namespace, "weights-7");
  EXPECT_FALSE(memory.last_pause().has_flushed);
  EXPECT_EQ(CheckPolicy(EngineKind::kVllm, KvPolicy::kRetract).code(), Code::kUnsupported);
}

// A server that is only started again asks nothing of running requests; only what may have been cached under other weights is
// flushed.
TEST_F(EngineMemoryTest, AnEngineThatWentOnMeanwhileIsNotFlushed) {
  const std::string pause = R"(/pause_generation {"mode":"in_place"})";
  const std::string label = R"(/update_weight_version {"new_version":"0","abort_all_requests":false})";
  const std::string go_on = R"(/continue_generation {"torch_empty_cache":false})";
  Begin(EngineKind::kSglang, KvPolicy::kAbort, ServedMemory::FoundReaders{0, true});
  EXPECT_THAT(engine_.Take(), ElementsAre(pause, label, go_on));
  EXPECT_THAT(gate_seen_, ElementsAre("close", "open 0"));
  // The next pause is one as any.
  ASSERT_TRUE(Close().ok());
  memory_->Open(1);
  EXPECT_EQ(engine_.Take().front(), R"(/pause_generation {"mode":"abort"})");
  EXPECT_EQ(gate_seen_.back(), "clean 1");

  Begin(EngineKind::kSglang, KvPolicy::kRetract, ServedMemory::FoundReaders{0, false});
  EXPECT_THAT(engine_.Take(), ElementsAre(pause, label, go_on));
  Begin(EngineKind::kSglang, KvPolicy::kFlush, ServedMemory::FoundReaders{0, false});
  EXPECT_THAT(engine_.Take(), ElementsAre(R"(/pause_generation {"mode":"retract"})", "/flush_cache", label, go_on));
  Begin(EngineKind::kSglang, KvPolicy::kFlush, ServedMemory::FoundReaders{7, true});
  EXPECT_THAT(engine_.Take(), ElementsAre(pause, "/flush_cache", label, go_on));
}

TEST_F(EngineMemoryTest, RequestsThatKeepItFromFlushingAreAborted) {
  EngineMemory& memory = Make(EngineKind::kSglang, KvPolicy::kFlush);
  engine_.Refuse("/flush_cache", 2);
  ASSERT_TRUE(Close().ok());
  memory.Open(1);
  EXPECT_TRUE(memory.last_pause().has_aborted_all && memory.last_pause().has_flushed);
  EXPECT_TRUE(memory.Readiness().ok());
}

TEST_F(EngineMemoryTest, AnEngineThatDoesNotFlushStandsStillUntilItDoes) {
  EngineMemory& memory = Make(EngineKind::kSglang, KvPolicy::kFlush);
  engine_.Refuse("/flush_cache", 1'000'000);
  ASSERT_TRUE(Close().ok());
  memory.Open(1);
  EXPECT_THAT(memory.Readiness().message(), HasSubstr("stands still: the engine's /flush_cache answered 400: 'not now'"));
  EXPECT_THAT(gate_seen_, ElementsAre("close"));
  engine_.Refuse("/flush_cache", 0);
  ASSERT_TRUE(Close().ok());
  memory.Open(1);
  EXPECT_TRUE(memory.Readiness().ok());
  EXPECT_TRUE(memory.last_pause().has_flushed);
}

TEST_F(EngineMemoryTest, WhatCannotBePausedGoesOn) {
  EngineMemory& memory = Make(EngineKind::kSglang, KvPolicy::kAbort);
  engine_.Refuse("/pause_generation", 1);
  EXPECT_THAT(Close().message(), HasSubstr("/pause_generation answered 400"));
  EXPECT_THAT(engine_.Take(),
              ElementsAre(R"(/pause_generation {"mode":"abort"})", R"(/continue_generation {"torch_empty_cache":false})"));
  EXPECT_TRUE(memory.Readiness().ok());
  gate_->fails = true;
  EXPECT_EQ(Close().message(), "steps are inside");
  EXPECT_EQ(engine_.Take().back(), R"(/continue_generation {"torch_empty_cache":false})");
  engine_.Refuse("/continue_generation", 1);
  EXPECT_FALSE(Close().ok());
  EXPECT_THAT(memory.Readiness().message(), HasSubstr("steps are inside; and then the engine's /continue_generation"));
}

}  // namespace
}  // namespace xorbit
