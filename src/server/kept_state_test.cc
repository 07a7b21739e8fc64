// What a driver says about one update reaches the backend: whether it leaves its memory for the next one, and whether inner
// frames are hashed.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "receive/testing/forwarding_backend.h"
#include "server/testing/served_model.h"

namespace xorbit {
namespace {

constexpr uint64_t kLeftBytes = 12'345;

class LeftMemory final : public KeptMemory {
 public:
  explicit LeftMemory(int* alive_count) : alive_count_(alive_count) { ++*alive_count_; }
  ~LeftMemory() override { --*alive_count_; }
  uint64_t byte_count() const override { return kLeftBytes; }

 private:
  int* alive_count_;
};

// Leaves memory as a device does, and remembers what it was asked for.
class LeavingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  Result<std::unique_ptr<PreparedUpdate>> Prepare(const Layout& layout, std::span<const PayloadView> payloads,
                                                  const LiveMemory& live, const PrepareOptions& options) const override {
    found_left = *options.masks.kept != nullptr;
    validates = options.masks.validates_inner_hashes;
    *options.masks.kept = std::make_unique<LeftMemory>(&alive_count);
    return ForwardingBackend::Prepare(layout, payloads, live, options);
  }

  mutable bool found_left = false;
  mutable bool validates = false;
  mutable int alive_count = 0;
};

class KeptStateTest : public testing::Test {
 protected:
  void SetUp() override {
    served_ = model_.StartBy(backend_);
    background_ = std::jthread([this](const std::stop_token& stop) { served_->session().Run(stop); });
    model_.live().PublishAll();
  }
  HttpReply Post(const std::string& path, const std::string& body) {
    HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.body = body;
    return served_->Answer(request);
  }
  void UpdateTo(uint64_t version, const std::string& more) {
    const HttpReply reply =
        Post("/update_weights_from_gpu_delta", "{\"target_version\":" + std::to_string(version) + more + "}");
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_TRUE(model_.Holds(*served_, version));
  }
  uint64_t kept_bytes() { return served_->session().receipt().kept_bytes; }

  ServedModel model_;
  LeavingBackend backend_{model_.backend()};
  std::unique_ptr<ServedSampler> served_;
  std::jthread background_;
};

TEST_F(KeptStateTest, IsGivenBackUnlessTheDriverWantsItKept) {
  UpdateTo(1, "");
  EXPECT_EQ(backend_.alive_count, 0);
  EXPECT_EQ(kept_bytes(), 0U);
  UpdateTo(2, R"(,"release_state":false)");
  EXPECT_FALSE(backend_.found_left);
  EXPECT_EQ(backend_.alive_count, 1);
  EXPECT_EQ(kept_bytes(), kLeftBytes);
  UpdateTo(3, R"(,"release_state":false)");
  EXPECT_TRUE(backend_.found_left);
  EXPECT_EQ(backend_.alive_count, 1);

  EXPECT_EQ(Post("/clear_gpu_delta_state", "{}").status, 200);
  EXPECT_EQ(backend_.alive_count, 0);
  EXPECT_EQ(kept_bytes(), 0U);
  UpdateTo(4, R"(,"release_state":false)");
  EXPECT_FALSE(backend_.found_left);
  UpdateTo(3, "");  // says nothing: what the one before has left goes too
  EXPECT_EQ(backend_.alive_count, 0);
}

TEST_F(KeptStateTest, AndStepByStep) {
  for (const uint64_t target : {1, 2}) {
    const std::string id = "{\"session_id\":\"s" + std::to_string(target) + "\"";
    const std::string order =
        id + ",\"target_version\":" + std::to_string(target) + R"(,"release_state":false,"validate_payload_hash":false})";
    ASSERT_EQ(Post("/prepare_gpu_delta", order).status, 200);
    while (served_->session().receipt().state == SessionState::kPreparing) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(backend_.found_left, target == 2);
    EXPECT_FALSE(backend_.validates);
    ASSERT_EQ(Post("/apply_gpu_delta", id + "}").status, 200);
    ASSERT_EQ(Post("/resume_gpu_delta", id + "}").status, 200);
    while (kept_bytes() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // given back beside the serving
    EXPECT_EQ(kept_bytes(), kLeftBytes);
  }
}

TEST_F(KeptStateTest, InnerFramesAreHashedUnlessTheDriverWantsOtherwise) {
  UpdateTo(1, R"(,"validate_payload_hash":false)");
  EXPECT_FALSE(backend_.validates);
  UpdateTo(2, "");
  EXPECT_TRUE(backend_.validates);
}

}  // namespace
}  // namespace xorbit
