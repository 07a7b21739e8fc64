#include "transport/http_server.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/parallel.h"

namespace xorbit {
Result<std::unique_ptr<HttpServer>> HttpServer::Listen(const std::string& address, uint16_t port,
                                                       const HttpServerOptions& options) {
  XORBIT_ASSIGN_OR_RETURN(UniqueFd listener, ListenOn(address, port));
  XORBIT_ASSIGN_OR_RETURN(const uint16_t chosen, PortOf(listener));
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.valid()) return ErrnoError("eventfd", errno);
  return std::unique_ptr<HttpServer>(
      new HttpServer(std::move(listener), std::move(stop), chosen, options));  // tidy-allow: private
}

void HttpServer::Stop() { (void)::eventfd_write(stop_.get(), 1); }

// Threads wait in turn: a connection that woke all of them would cost more than most requests, and where it is one about a
// gate that is closed, the pause would be longer by it.
std::optional<HttpArrival> HttpServer::NextArrival() {
  const std::lock_guard turn(turn_);
  return reception_.Next(listener_, stop_);
}

Status HttpServer::Run(const HttpHandler& handle, const std::function<HttpReply(int status, const std::string& why)>& refuse) {
  const auto work = [&](uint64_t /*index*/) -> Status {
    while (std::optional<HttpArrival> arrival = NextArrival()) {
      const bool is_refused = arrival->refusal_status != 0;
      const HttpReply reply = is_refused ? refuse(arrival->refusal_status, arrival->why) : handle(arrival->request);
      if (!arrival->socket.Send(WriteHttpReply(reply), std::chrono::steady_clock::now() + options_.send_limit).ok()) continue;
      if (is_refused) arrival->socket.Finish();
    }
    return {};
  };
  const int threads = std::max(options_.threads, 1);
  return ParallelFor(threads, static_cast<uint64_t>(threads), work);
}

}  // namespace xorbit
