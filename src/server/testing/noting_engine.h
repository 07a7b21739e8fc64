// An engine's HTTP server that does nothing: it notes every request, and answers 200 unless told to refuse, or to let its
// caller wait.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/engine_memory.h"
#include "transport/http_server.h"

namespace xorbit {

class NotingEngine {
 public:
  NotingEngine() : server_(HttpServer::Listen("127.0.0.1", 0, {.threads = 1}).value()) {
    thread_ = std::jthread([this] {
      const auto answer = [this](const HttpRequest& request) { return Answer(request); };
      EXPECT_TRUE(server_->Run(answer, [](int, const std::string&) { return HttpReply(); }).ok());
    });
  }
  ~NotingEngine() {
    LetGo();
    server_->Stop();
  }

  EngineLinkOptions Options(EngineKind kind, KvPolicy policy) {
    EngineLinkOptions options;
    options.kind = kind;
    options.policy = policy;
    options.endpoint = {"127.0.0.1", server_->port()};
    options.flush_limit = std::chrono::milliseconds(100);
    return options;
  }
  void Refuse(const std::string& path, int times) {
    const std::lock_guard lock(mutex_);
    refusals_[path] = times;
  }
  // The next request of this path is not answered before LetGo.
  void Hold(const std::string& path) {
    const std::lock_guard lock(mutex_);
    held_path_ = path;
  }
  void AwaitHeld() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [this] { return is_holding_; })) << held_path_ << " was not asked for";
  }
  // Whether a request is held that has not waited for so long that its test must hang without it.
  bool is_holding() {
    const std::lock_guard lock(mutex_);
    return is_holding_;
  }
  void LetGo() {
    const std::lock_guard lock(mutex_);
    held_path_.clear();
    is_holding_ = false;
    changed_.notify_all();
  }
  std::vector<std::string> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(seen_, {});
  }

 private:
  static constexpr std::chrono::seconds kPatience{30};

  HttpReply Answer(const HttpRequest& request) {
    std::unique_lock lock(mutex_);
    std::string line = request.path + (request.query.empty() ? "" : "?" + request.query);
    if (!request.body.empty()) line += " " + request.body;
    seen_.push_back(line);
    if (request.path == held_path_) {
      is_holding_ = true;
      changed_.notify_all();
      changed_.wait_for(lock, kPatience, [this] { return !is_holding_; });
      is_holding_ = false;
    }
    HttpReply reply;
    reply.body = "{}";
    if (refusals_[request.path] > 0) {
      --refusals_[request.path];
      reply.status = 400;
      reply.body = "not now";
    }
    return reply;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string held_path_;  // guarded by mutex_, as all below
  bool is_holding_ = false;
  std::vector<std::string> seen_;
  std::map<std::string, int> refusals_;
  std::unique_ptr<HttpServer> server_;
  std::jthread thread_;
};

}  // namespace xorbit
