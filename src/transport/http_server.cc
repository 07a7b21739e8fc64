#include "transport/http_server.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/parallel.h"

namespace xorbit {
namespace {

constexpr int kRestMs = 100;
constexpr std::string_view kHeadEnd = "\r\n\r\n";

}  // namespace

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
std::optional<UniqueFd> HttpServer::NextConnection() {
  const std::lock_guard turn(turn_);
  for (;;) {
    pollfd polled[] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    const int count = ::poll(polled, 2, -1);
    if (count < 0 && errno != EINTR) return std::nullopt;
    if (count > 0) return polled[1].revents == 0 ? std::optional(AcceptNext(listener_)) : std::nullopt;
  }
}

// The machine has nothing left for another connection: others may close theirs.
void HttpServer::Rest() const {
  pollfd polled{stop_.get(), POLLIN, 0};
  (void)::poll(&polled, 1, kRestMs);
}

bool HttpServer::ReadRequest(HttpSocket& socket, HttpRequest* request, Refusal* refusal) const {
  const HttpDeadline deadline = std::chrono::steady_clock::now() + options_.receive_limit;
  // True if `*refusal` or the request can be worked on; a client that has gone, or is too slow, gets nothing.
  std::string text;
  size_t end = std::string::npos;
  while ((end = text.find(kHeadEnd)) == std::string::npos) {
    if (text.size() >= kMaxHttpHeadBytes) {
      *refusal = {431, "the request's head is longer than " + std::to_string(kMaxHttpHeadBytes) + " bytes"};
      return true;
    }
    const Result<bool> more = socket.Receive(&text, kMaxHttpHeadBytes - text.size(), deadline, stop_.get());
    if (!more.ok() || !*more) return false;
  }
  const Result<HttpHead> head = ParseHttpHead(std::string_view(text).substr(0, end + kHeadEnd.size()));
  if (!head.ok()) {
    *refusal = {head.status().code() == Code::kUnsupported ? 411 : 400, head.status().message()};
    return true;
  }
  if (head->body_bytes > options_.body_limit_bytes) {
    *refusal = {413, "the request's body is longer than " + std::to_string(options_.body_limit_bytes) + " bytes"};
    return true;
  }
  *request = head->request;
  request->body = text.substr(end + kHeadEnd.size());
  if (head->expects_continue && request->body.size() < head->body_bytes) {
    if (!socket.Send("HTTP/1.1 100 Continue\r\n\r\n", deadline).ok()) return false;
  }
  while (request->body.size() < head->body_bytes) {
    const Result<bool> more = socket.Receive(&request->body, head->body_bytes - request->body.size(), deadline, stop_.get());
    if (!more.ok() || !*more) return false;
  }
  if (request->body.size() > head->body_bytes) *refusal = {400, "the request goes on after its body: send one a connection"};
  return true;
}

Status HttpServer::Run(const HttpHandler& handle, const std::function<HttpReply(int status, const std::string& why)>& refuse) {
  const auto work = [&](uint64_t /*index*/) -> Status {
    while (std::optional<UniqueFd> accepted = NextConnection()) {
      if (!accepted->valid()) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) Rest();
        continue;
      }
      HttpSocket socket(std::move(*accepted));
      HttpRequest request;
      Refusal refusal{0, {}};
      if (!ReadRequest(socket, &request, &refusal)) continue;
      const HttpReply reply = refusal.status != 0 ? refuse(refusal.status, refusal.why) : handle(request);
      if (!socket.Send(WriteHttpReply(reply), std::chrono::steady_clock::now() + options_.send_limit).ok()) continue;
      if (refusal.status != 0) socket.Finish();
    }
    return {};
  };
  const int threads = std::max(options_.threads, 1);
  return ParallelFor(threads, static_cast<uint64_t>(threads), work);
}

}  // namespace xorbit
