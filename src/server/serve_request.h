// What a server of a sampler is started with: which weights, which stream, who may ask.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/file.h"
#include "server/engine_memory.h"
#include "server/routes.h"
#include "transport/host_cache.h"
#include "transport/http_server.h"

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

}  // namespace xorbit
