// A sampler with its HTTP server: from a checkpoint and a store to an address that answers. Commands and tests start it; Run
// takes over the calling thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "journey/gated_sampler.h"
#include "journey/journey.h"
#include "server/routes.h"
#include "server/sampler_session.h"
#include "transport/host_cache.h"
#include "transport/http_server.h"
#include "transport/object_store.h"

namespace xorbit {

struct ServeRequest {
  fs::path checkpoint;  // must be a version of the stream
  fs::path attachment;  // instead of a checkpoint: what an engine exports
  // The runtime's backend is CUDA's; a checkpoint is loaded onto this device. None: host memory.
  std::optional<int> device;
  fs::path store_root;    // the folder behind the store: manifests that a request names must lie below it
  std::string stream_id;  // empty: the store's only one
  bool follows = false;
  // Brings a checkpoint that was loaded to the newest version before anybody may read it (StartUp), with so many bytes for
  // payloads. 0: it is served as it is, and whoever drives it or follows the stream brings it along.
  uint64_t start_up_bytes = 0;
  std::string engine_id;
  std::string address = "127.0.0.1";
  uint16_t port = 0;  // the system chooses
  AccessRules access;
  HttpServerOptions http;
  double requests_per_second = 1'000;                // of each role; 0: no limit
  std::optional<EngineLinkOptions> engine;           // the server of the engine that reads the attached memory
  const HostCacheCounts* host_fetched = nullptr;     // what the store's cache has fetched, if it has one; outlives the sampler
  std::function<void(const std::string& line)> log;  // gets one line of JSON a request, from any thread; may be empty
};

// kUsage for an address that others can reach without an admin token.
Status CheckListener(const ServeRequest& request);

class ServedSampler {
 public:
  // Loads the checkpoint into memory of its own, or attaches to an engine's, proves which version it is, and listens. kRefused
  // if it is no version of the stream. kUsage for an address that others can reach without an admin token. The store and what
  // `runtime` points to outlive it.
  static Result<std::unique_ptr<ServedSampler>> Start(const Runtime& runtime, ObjectStore& store, const ServeRequest& request);

  uint16_t port() const { return server_->port(); }
  // What its user should hear of at start: what attached memory makes slow. Empty: nothing.
  const std::string& advice() const { return advice_; }
  SamplerSession& session() { return *session_; }
  const GatedSampler& sampler() const { return *sampler_; }
  HttpReply Answer(const HttpRequest& request);  // counted and logged

  // Answers requests, and follows or prepares beside them, until Stop. Requests under way are answered first, and a session is
  // ended as SamplerSession::Finish does.
  Status Run();
  // After Run: why readers of the weights stand still; empty if they do not.
  const std::string& standstill() const { return standstill_; }
  void Stop();  // from any thread

 private:
  ServedSampler(Stream stream, const ServeRequest& request)
      : stream_(std::move(stream)),
        access_(request.access),
        limit_(request.requests_per_second, std::chrono::steady_clock::now()),
        log_(request.log) {}

  Stream stream_;
  AccessRules access_;
  RateLimit limit_;
  std::function<void(const std::string& line)> log_;
  std::unique_ptr<CohortMember> member_ = AloneMember();
  std::unique_ptr<GatedSampler> sampler_;
  std::unique_ptr<SamplerSession> session_;
  std::unique_ptr<HttpServer> server_;
  std::stop_source stop_;
  std::string advice_;
  std::string standstill_;
};

}  // namespace xorbit
