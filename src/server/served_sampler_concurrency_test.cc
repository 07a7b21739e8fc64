// The whole server over loopback: an update end to end, a sampler that follows, and clients that mean no good.
#include "server/served_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "server/testing/served_model.h"
#include "transport/http_client.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

HttpDeadline Soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(60); }

class ServedSamplerTest : public testing::Test {
 protected:
  void Start() {
    served_ = model_.Start();
    thread_ = std::jthread([this] { EXPECT_TRUE(served_->Run().ok()); });
  }
  void TearDown() override {
    if (served_ != nullptr) served_->Stop();
  }

  Result<HttpReply> Call(std::string method, std::string path, std::string body = "") {
    HttpCall call;
    call.method = std::move(method);
    call.path = std::move(path);
    call.body = std::move(body);
    return CallHttp({"127.0.0.1", served_->port()}, call, Soon());
  }
  HttpReply Get(std::string path) { return Call("GET", std::move(path)).value(); }
  HttpReply Post(std::string path, std::string body) { return Call("POST", std::move(path), std::move(body)).value(); }

  ServedModel model_;
  std::unique_ptr<ServedSampler> served_;
  std::jthread thread_;
};

TEST_F(ServedSamplerTest, AnUpdateOverTheWire) {
  Start();
  model_.live().PublishAll();
  EXPECT_EQ(Post("/prepare_gpu_delta", R"({"session_id":"s","base_version":0,"target_version":3})").status, 200);
  std::string status;
  do {
    status = Post("/get_gpu_delta_status", R"({"session_id":"s"})").body;
  } while (status.find("PREPARING") != std::string::npos);
  EXPECT_THAT(status, HasSubstr("\"PREPARED\""));
  EXPECT_EQ(Post("/apply_gpu_delta", R"({"session_id":"s"})").status, 200);
  EXPECT_EQ(Post("/resume_gpu_delta", R"({"session_id":"s"})").status, 200);
  EXPECT_THAT(Get("/get_weight_version").body, HasSubstr("\"3\""));
  EXPECT_TRUE(model_.Holds(*served_, 3));
}

TEST_F(ServedSamplerTest, AFollowerTakesEveryVersionWhileItIsRead) {
  model_.request().follows = true;
  model_.request().requests_per_second = 0;  // it asks as fast as it can
  Start();
  EXPECT_EQ(Post("/update_weights_from_gpu_delta", R"({"target_version":"latest"})").status, 409);
  std::jthread publisher([this] { model_.live().PublishAll(); });
  // Checksums are read while updates come: each is some version's, whole.
  std::string version;
  while (version.find("\"4\"") == std::string::npos) {
    const HttpReply checked = Post("/weights_checker", R"({"action":"checksum"})");
    EXPECT_TRUE(checked.status == 200 || checked.body.find("paused") != std::string::npos) << checked.body;
    version = Get("/get_weight_version").body;
  }
  publisher.join();
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_EQ(Post("/weights_checker", R"({"action":"checksum"})").status, 200);
}

TEST_F(ServedSamplerTest, ManyClientsAndOneSession) {
  Start();
  model_.live().PublishAll();
  std::atomic<int> done{0};
  std::vector<std::jthread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] {
      for (int round = 0; round < 10; ++round) {
        const std::string target = std::to_string((i + round) % 5);
        const HttpReply reply = Post("/update_weights_from_gpu_delta", R"({"target_version":)" + target + "}");
        EXPECT_TRUE(reply.status == 200 || reply.status == 409) << reply.body;
        done += reply.status == 200 ? 1 : 0;
        Post(round % 2 == 0 ? "/pause_generation" : "/continue_generation", "");
      }
    });
  }
  clients.clear();
  EXPECT_GT(done, 0);
  Post("/continue_generation", "");
  const HttpReply checked = Post("/weights_checker", R"({"action":"checksum"})");
  EXPECT_EQ(checked.status, 200) << checked.body;
}

TEST_F(ServedSamplerTest, HostileClientsGetAnErrorAndOthersAreServed) {
  model_.request().http.body_limit_bytes = 10'000;
  model_.request().http.receive_limit = std::chrono::milliseconds(300);
  Start();
  const auto send = [&](const std::string& text) {
    auto socket = HttpSocket::Connect("127.0.0.1", served_->port(), Soon());
    EXPECT_TRUE(socket.ok());
    static_cast<void>(socket->Send(text, Soon()));
    std::string answer;
    for (Result<bool> more = true; more.ok() && *more;) more = socket->Receive(&answer, 100'000, Soon());
    return answer;
  };
  EXPECT_THAT(send("nonsense\r\n\r\n"), HasSubstr("400 Bad Request"));
  EXPECT_THAT(send("POST /health HTTP/1.1\r\nContent-Length: 10001\r\n\r\n"), HasSubstr("413 "));
  EXPECT_THAT(send("POST /health HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n"), HasSubstr("413 "));
  EXPECT_THAT(send("POST /health HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), HasSubstr("411 "));
  EXPECT_THAT(send("GET /" + std::string(kMaxHttpHeadBytes, 'a')), HasSubstr("431 "));
  EXPECT_THAT(send("POST /get_gpu_delta_info HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}more"), HasSubstr("400 "));
  EXPECT_THAT(send("POST /get_gpu_delta_info HTTP/1.1\r\nContent-Length: 1\r\n\r\n{"), HasSubstr("400 "));
  EXPECT_EQ(send("POST /get_gpu_delta_info HTTP/1.1\r\nContent-Length: 100\r\n\r\n{"), "");  // never sends the rest
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 60; ++round) {
    std::string text = "POST /prepare_gpu_delta HTTP/1.1\r\nContent-Length: 40\r\n\r\n" + std::string(40, '{');
    for (uint64_t flips = random() % 30; flips > 0; --flips) text[random() % text.size()] = static_cast<char>(random());
    if (random() % 2 == 0) text += "\r\n\r\n";
    const std::string answer = send(text);
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 4")) << answer;
  }
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_TRUE(model_.Holds(*served_, 0));
}

TEST_F(ServedSamplerTest, StopEndsAtOnceAndOthersCannotReachItWithoutAToken) {
  Start();
  EXPECT_EQ(Get("/health").status, 200);
  served_->Stop();
  thread_.join();
  ServeRequest request = model_.request();
  request.address = "0.0.0.0";
  const Runtime runtime{&model_.backend(), &PosixFileOps(), 1};
  EXPECT_EQ(ServedSampler::Start(runtime, model_.store(), request).status().code(), Code::kUsage);
  request.access.admin_token = "boss";
  EXPECT_TRUE(ServedSampler::Start(runtime, model_.store(), request).ok());
}

}  // namespace
}  // namespace xorbit
