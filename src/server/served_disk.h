// A sampler on the disk with its HTTP server: as ServedSampler, for DiskSampler.
#pragma once

#include <memory>
#include <stop_token>

#include "server/disk_sampler.h"
#include "server/http_front.h"
#include "server/serve_request.h"

namespace xorbit {

class ServedDisk {
 public:
  // Of `request`: where to listen, who may ask, how often, and the log. Errors as of DiskSampler::Open; kUsage for an address
  // that others can reach without an admin token.
  static Result<std::unique_ptr<ServedDisk>> Start(const Runtime& runtime, ObjectStore& store, const ServeRequest& request,
                                                   const DiskSamplerOptions& options);

  uint16_t port() const { return front_.port(); }
  DiskSampler& sampler() { return *sampler_; }
  HttpReply Answer(const HttpRequest& request);  // counted and logged

  // Answers requests, and follows beside them if the sampler does, until Stop. Requests and loads under way end first.
  Status Run();
  void Stop();  // from any thread

 private:
  explicit ServedDisk(HttpFront front) : front_(std::move(front)) {}

  HttpFront front_;
  std::unique_ptr<DiskSampler> sampler_;
  std::stop_source stop_;
};

}  // namespace xorbit
