#include "transport/http_reception.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

namespace xorbit {
namespace {

constexpr int kRestMs = 100;
constexpr std::string_view kHeadEnd = "\r\n\r\n";

}  // namespace

// Until the first deadline; they come in order.
int HttpReception::MillisecondsLeft() const {
  if (waiting_.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(waiting_.front().deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

void HttpReception::Accept(const UniqueFd& listener, const UniqueFd& stop) {
  UniqueFd fd = AcceptNext(listener);
  if (fd.valid()) {
    waiting_.push_back({HttpSocket(std::move(fd)), std::chrono::steady_clock::now() + receive_limit_, {}, {}, 0, {}});
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    // The machine has nothing left for another connection: others may close theirs.
    if (!waiting_.empty()) return waiting_.pop_front();
    pollfd polled{stop.get(), POLLIN, 0};
    (void)::poll(&polled, 1, kRestMs);
  }
}

HttpReception::Progress HttpReception::ReadHead(Waiting* one) const {
  const auto refuse = [&](int status, std::string why) {
    one->refusal_status = status;
    one->why = std::move(why);
    return Progress::kWhole;
  };
  const size_t end = one->text.find(kHeadEnd);
  if (end == std::string::npos) {
    if (one->text.size() < kMaxHttpHeadBytes) return Progress::kMore;
    return refuse(431, "the request's head is longer than " + std::to_string(kMaxHttpHeadBytes) + " bytes");
  }
  Result<HttpHead> head = ParseHttpHead(std::string_view(one->text).substr(0, end + kHeadEnd.size()));
  if (!head.ok()) return refuse(head.status().code() == Code::kUnsupported ? 411 : 400, head.status().message());
  if (head->body_bytes > body_limit_bytes_) {
    return refuse(413, "the request's body is longer than " + std::to_string(body_limit_bytes_) + " bytes");
  }
  one->text.erase(0, end + kHeadEnd.size());
  one->head = std::move(*head);
  if (one->text.size() > one->head->body_bytes) {
    return refuse(400, "the request goes on after its body: send one a connection");
  }
  if (one->text.size() == one->head->body_bytes) return Progress::kWhole;
  if (!one->head->expects_continue) return Progress::kMore;
  // A new connection has room for a line.
  const bool is_sent = one->socket.Send("HTTP/1.1 100 Continue\r\n\r\n", std::chrono::steady_clock::now()).ok();
  return is_sent ? Progress::kMore : Progress::kGone;
}

// Takes what has come, without waiting.
HttpReception::Progress HttpReception::Read(Waiting* one) const {
  const uint64_t wanted = one->head ? one->head->body_bytes : kMaxHttpHeadBytes;
  const Result<bool> more = one->socket.Receive(&one->text, wanted - one->text.size(), std::chrono::steady_clock::now());
  if (!more.ok() || !*more) return Progress::kGone;
  if (!one->head) return ReadHead(one);
  return one->text.size() == one->head->body_bytes ? Progress::kWhole : Progress::kMore;
}

void HttpReception::Bound() {
  uint64_t held_bytes = 0;
  for (const Waiting& one : waiting_) held_bytes += one.text.size();
  while (waiting_.size() > kMaxWaiting || held_bytes > kMaxHeldBytes) {
    held_bytes -= waiting_.front().text.size();
    waiting_.pop_front();
  }
}

std::optional<HttpArrival> HttpReception::Next(const UniqueFd& listener, const UniqueFd& stop) {
  std::vector<pollfd> polled;
  for (;;) {
    polled = {{listener.get(), POLLIN, 0}, {stop.get(), POLLIN, 0}};
    for (const Waiting& one : waiting_) polled.push_back({one.socket.fd(), POLLIN, 0});
    const int count = ::poll(polled.data(), polled.size(), MillisecondsLeft());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 || polled[1].revents != 0) {
      waiting_.clear();
      return std::nullopt;
    }
    const auto now = std::chrono::steady_clock::now();
    size_t index = 2;
    for (auto one = waiting_.begin(); one != waiting_.end(); ++index) {
      Progress progress = one->deadline <= now ? Progress::kGone : Progress::kMore;
      if (progress == Progress::kMore && polled[index].revents != 0) progress = Read(&*one);
      if (progress == Progress::kWhole) {
        HttpArrival arrival{std::move(one->socket), {}, one->refusal_status, std::move(one->why)};
        if (one->head) arrival.request = std::move(one->head->request);
        arrival.request.body = std::move(one->text);
        waiting_.erase(one);
        return arrival;
      }
      one = progress == Progress::kGone ? waiting_.erase(one) : std::next(one);
    }
    if (polled[0].revents != 0) Accept(listener, stop);
    Bound();
  }
}

}  // namespace xorbit
