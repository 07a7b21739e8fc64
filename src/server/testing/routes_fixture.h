// A sampler whose routes are asked without sockets.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/json.h"
#include "server/testing/served_model.h"

namespace xorbit {

inline JsonShape AnyReply() {
  JsonShape participant = JsonShape::Object({"state", "applied_version", "applied_state", "target_version", "target_state",
                                             "base_version", "result", "damage", "change_count", "lease_left_ms"});
  participant.fields.push_back({"identity", JsonShape::Object({"engine_id", "pid", "start_ticks"})});
  JsonShape shape = JsonShape::Object({"success", "message", "weight_version", "applied", "type", "is_paused", "ready"});
  shape.fields.push_back({"participants", JsonShape::Each(std::move(participant), 10)});
  return shape;
}

class RoutesFixture : public testing::Test {
 protected:
  void Start() {
    served_ = model_.Start();
    // What serves requests in the program: here only the part beside them.
    background_ = std::jthread([this](const std::stop_token& stop) { served_->session().Run(stop); });
  }

  HttpReply Ask(std::string_view method, std::string path, std::string body = "", std::string authorization = "") {
    HttpRequest request;
    request.method = method;
    request.path = std::move(path);
    request.body = std::move(body);
    request.authorization = std::move(authorization);
    return served_->Answer(request);
  }
  HttpReply Post(std::string path, std::string body = "{}") { return Ask("POST", std::move(path), std::move(body)); }

  static Json Read(const HttpReply& reply) { return ParseJson(reply.body, AnyReply(), 8).value(); }
  static std::string StateOf(const HttpReply& reply) { return Read(reply)["participants"][0]["state"]; }

  // The body of a request that is about session "s".
  static std::string OfSession(const std::string& more = "") { return R"({"session_id":"s")" + more + "}"; }

  // Asks until preparing is over.
  std::string AwaitPrepared(std::string state = "PREPARING") {
    while (state == "PREPARING") {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      state = StateOf(Post("/get_gpu_delta_status", OfSession()));
    }
    return state;
  }

  ServedModel model_;
  std::unique_ptr<ServedSampler> served_;
  std::jthread background_;
};

}  // namespace xorbit
