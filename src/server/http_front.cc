#include "server/http_front.h"

#include <chrono>

#include "base/text.h"

namespace xorbit {

HttpFront::HttpFront(std::unique_ptr<HttpServer> server, const ServeRequest& request)
    : server_(std::move(server)),
      access_(request.access),
      limit_(std::make_unique<RateLimit>(request.requests_per_second, std::chrono::steady_clock::now())),
      log_(request.log) {}

Result<HttpFront> HttpFront::Listen(const ServeRequest& request) {
  if (!request.address.starts_with("127.") && request.access.admin_token.empty()) {
    return UsageError("on " + Quoted(request.address) + " others can reach this server: give it an --admin-token-file");
  }
  XORBIT_ASSIGN_OR_RETURN(auto server, HttpServer::Listen(request.address, request.port, request.http));
  return HttpFront(std::move(server), request);
}

void HttpFront::Count(const HttpReply& reply, ServingCounters* counters) {
  counters->NoteReply(reply.status, reply.body.find(kVersionNotReady) != std::string::npos);
}

}  // namespace xorbit
