// An engine over loopback that loads the checkpoint on the disk when it is asked, as SGLang's or vLLM's would, and tells by
// digest what it has loaded. It can be made to answer otherwise, and to be restarted.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/json.h"
#include "journey/journey.h"
#include "transport/http_server.h"

namespace xorbit {

class LoadingEngine {
 public:
  LoadingEngine(const Backend& backend, fs::path checkpoint) : backend_(backend), checkpoint_(std::move(checkpoint)) {
    Start(0);
  }
  ~LoadingEngine() { Kill(); }

  uint16_t port() const { return port_; }
  void Kill() {
    server_->Stop();
    thread_ = {};
    server_.reset();
  }
  // Another process at the same address: it has loaded nothing that it was told of.
  void Restart() {
    if (server_) Kill();
    label_ = "default";
    loaded_ = {};
    Start(port_);
  }
  // What it answers to a path from now on, without doing anything.
  void AnswerWith(const std::string& path, int status, const std::string& body) {
    const std::lock_guard lock(mutex_);
    HttpReply reply;
    reply.status = status;
    reply.body = body;
    answers_[path] = reply;
  }
  void AnswerProperly() {
    const std::lock_guard lock(mutex_);
    answers_.clear();
  }
  // Called when it has loaded, before it says so.
  void AfterLoad(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    after_load_ = std::move(work);
  }

  StateDigest loaded() {
    const std::lock_guard lock(mutex_);
    return loaded_;
  }
  std::string last_load() {
    const std::lock_guard lock(mutex_);
    return last_load_;
  }
  // The paths that were asked for since the last call, but for questions.
  std::vector<std::string> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(seen_, {});
  }
  uint64_t question_count() {
    const std::lock_guard lock(mutex_);
    return question_count_;
  }

 private:
  void Start(uint16_t port) {
    auto listening = HttpServer::Listen("127.0.0.1", port, {.threads = 2});
    ASSERT_TRUE(listening.ok()) << listening.status().message();
    server_ = std::move(listening).value();
    port_ = server_->port();
    thread_ = std::jthread([this] {
      const auto answer = [this](const HttpRequest& request) { return Answer(request); };
      EXPECT_TRUE(server_->Run(answer, [](int, const std::string&) { return HttpReply(); }).ok());
    });
  }

  static std::string FieldOf(const std::string& body, const std::string& key) {
    const auto json = ParseJson(body, JsonShape::Object({"weight_version", "new_version"}), 2);
    if (!json.ok() || !json->is_object()) return {};
    const Result<std::string> field = GetString(*json, key);
    return field.ok() ? *field : std::string();
  }

  // As SGLang 0.5.23 and vLLM 0.33 word it.
  static std::string ProperBody(const std::string& path) {
    if (path == "/pause_generation") return R"({"message":"Generation paused successfully.","status":"ok"})";
    if (path == "/continue_generation") return R"({"message":"Generation continued successfully.","status":"ok"})";
    if (path == "/flush_cache") return "Cache flushed.\nPlease check backend logs for more details.\n";
    if (path == "/pause") return R"({"status":"paused"})";
    if (path == "/resume") return R"({"status":"resumed"})";
    if (path == "/collective_rpc") return R"({"results":[null]})";
    if (path == "/update_weights_from_disk") return R"({"success":true,"message":"","num_paused_requests":0})";
    return R"({"success":true})";
  }

  HttpReply Answer(const HttpRequest& request) {
    const std::lock_guard lock(mutex_);
    HttpReply reply;
    if (request.method == "POST") seen_.push_back(request.path);
    if (request.method == "GET") ++question_count_;
    if (const auto found = answers_.find(request.path); found != answers_.end()) return found->second;
    reply.body = ProperBody(request.path);
    if (request.method == "GET") reply.body = DumpJson({{"weight_version", label_}});
    if (request.path == "/update_weight_version") label_ = FieldOf(request.body, "new_version");
    if (request.path != "/update_weights_from_disk" && request.path != "/collective_rpc") return reply;
    const Checkpoint checkpoint = OpenSettled(checkpoint_).value();
    loaded_ = backend_.Scan(checkpoint.layout(), checkpoint.all_tensor_bytes(), ScanScope::kAll, 1);
    last_load_ = request.body;
    if (request.path == "/update_weights_from_disk") label_ = FieldOf(request.body, "weight_version");
    if (after_load_) after_load_();
    return reply;
  }

  const Backend& backend_;
  const fs::path checkpoint_;
  uint16_t port_ = 0;
  std::unique_ptr<HttpServer> server_;
  std::mutex mutex_;
  std::map<std::string, HttpReply> answers_;
  std::function<void()> after_load_;
  std::string label_ = "default";
  StateDigest loaded_;
  std::string last_load_;
  std::vector<std::string> seen_;
  uint64_t question_count_ = 0;
  std::jthread thread_;
};

}  // namespace xorbit
