// What stands between the sockets and what is served, be it a SamplerSession or a DiskSampler: who may ask and how often, with
// every reply counted and logged.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/stopwatch.h"
#include "server/reply.h"
#include "server/request_log.h"
#include "server/routes.h"
#include "server/serve_request.h"
#include "server/serving_counters.h"
#include "transport/http_server.h"

namespace xorbit {

// What is served has a Dispatch (routes.h, disk_routes.h), counters(), engine_id() and version().
class HttpFront {
 public:
  // Of `request`: where to listen, who may ask, how often, and the log. kUsage for an address that others can reach without an
  // admin token; else errors as HttpServer::Listen.
  static Result<HttpFront> Listen(const ServeRequest& request);

  uint16_t port() const { return server_->port(); }

  // From any thread.
  template <typename Served>
  HttpReply Answer(Served& served, const HttpRequest& request) {
    const Stopwatch watch;
    HttpReply reply = Dispatch(served, access_, *limit_, request);
    Count(reply, &served.counters());
    if (log_) log_(RequestLogLine(served.engine_id(), request, reply.status, watch.seconds(), served.version()));
    return reply;
  }

  // Answers until Stop, those under way too.
  template <typename Served>
  Status Run(Served& served) {
    return server_->Run([&](const HttpRequest& request) { return Answer(served, request); },
                        [&](int status, const std::string& why) {
                          HttpReply reply = FailureReply(status, why);
                          Count(reply, &served.counters());
                          return reply;
                        });
  }
  void Stop() { server_->Stop(); }  // from any thread

 private:
  HttpFront(std::unique_ptr<HttpServer> server, const ServeRequest& request);
  static void Count(const HttpReply& reply, ServingCounters* counters);

  std::unique_ptr<HttpServer> server_;
  AccessRules access_;
  std::unique_ptr<RateLimit> limit_;
  std::function<void(const std::string& line)> log_;
};

}  // namespace xorbit
