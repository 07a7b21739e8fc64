// An HTTP server that is given what to answer. A connection carries one request; a fixed number of threads take requests that
// have come whole, so that an idle or slow client keeps nobody waiting. What a client may cost is bounded: bytes of head and
// body, and the time to send them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/file.h"
#include "transport/http_message.h"
#include "transport/http_reception.h"

namespace xorbit {

struct HttpServerOptions {
  int threads = 16;
  uint64_t body_limit_bytes = uint64_t{4} << 20;
  std::chrono::milliseconds receive_limit{10'000};  // for a whole request
  std::chrono::milliseconds send_limit{10'000};     // for a whole reply
};

// Called from several threads at once.
using HttpHandler = std::function<HttpReply(const HttpRequest& request)>;

class HttpServer {
 public:
  // Connections are taken from here on, and answered once Run is called. Errors as ListenOn.
  static Result<std::unique_ptr<HttpServer>> Listen(const std::string& address, uint16_t port,
                                                    const HttpServerOptions& options);

  uint16_t port() const { return port_; }
  // Answers until Stop; returns when the last reply is sent. Requests that were refused before the handler saw them (400, 411,
  // 413, 431) are given to `refuse` as a code and a line, which makes the reply.
  Status Run(const HttpHandler& handle, const std::function<HttpReply(int status, const std::string& why)>& refuse);
  // From any thread: no more requests are taken; those under way are answered.
  void Stop();

 private:
  HttpServer(UniqueFd listener, UniqueFd stop, uint16_t port, const HttpServerOptions& options)
      : listener_(std::move(listener)),
        stop_(std::move(stop)),
        port_(port),
        options_(options),
        reception_(options.body_limit_bytes, options.receive_limit) {}
  // Nothing: stopped.
  std::optional<HttpArrival> NextArrival();

  UniqueFd listener_;
  UniqueFd stop_;  // an eventfd: readable once stopped
  uint16_t port_;
  HttpServerOptions options_;
  std::mutex turn_;          // of the thread that waits for requests
  HttpReception reception_;  // guarded by turn_
};

}  // namespace xorbit
