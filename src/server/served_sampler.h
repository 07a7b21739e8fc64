// A sampler with its HTTP server: from a checkpoint and a store to an address that answers. Commands and tests start it; Run
// takes over the calling thread.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "journey/gated_sampler.h"
#include "journey/journey.h"
#include "server/http_front.h"
#include "server/sampler_session.h"
#include "server/serve_request.h"
#include "transport/object_store.h"

namespace xorbit {

class ServedSampler {
 public:
  // Loads the checkpoint into memory of its own, or attaches to an engine's, proves which version it is, and listens. kRefused
  // if it is no version of the stream. kUsage for an address that others can reach without an admin token. The store and what
  // `runtime` points to outlive it.
  static Result<std::unique_ptr<ServedSampler>> Start(const Runtime& runtime, ObjectStore& store, const ServeRequest& request);

  uint16_t port() const { return front_.port(); }
  // What its user should hear of at start: what attached memory makes slow. Empty: nothing.
  const std::string& advice() const { return advice_; }
  SamplerSession& session() { return *session_; }
  const GatedSampler& sampler() const { return *sampler_; }
  HttpReply Answer(const HttpRequest& request) { return front_.Answer(*session_, request); }  // counted and logged

  // Answers requests, and follows or prepares beside them, until Stop. Requests under way are answered first, and a session is
  // ended as SamplerSession::Finish does.
  Status Run();
  // After Run: why readers of the weights stand still; empty if they do not.
  const std::string& standstill() const { return standstill_; }
  void Stop();  // from any thread

 private:
  ServedSampler(Stream stream, HttpFront front) : stream_(std::move(stream)), front_(std::move(front)) {}

  Stream stream_;
  HttpFront front_;
  std::unique_ptr<CohortMember> member_ = AloneMember();
  std::unique_ptr<GatedSampler> sampler_;
  std::unique_ptr<SamplerSession> session_;
  std::stop_source stop_;
  std::string advice_;
  std::string standstill_;
};

}  // namespace xorbit
