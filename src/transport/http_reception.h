// Connections whose request is still on its way. One thread waits for all of them at once and hands out requests that are
// whole, so that a client that connects and says nothing, or half of something, costs a little memory and never a thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>

#include "base/file.h"
#include "transport/http_message.h"
#include "transport/http_socket.h"

namespace xorbit {

// A request that has come whole, or what is to be answered instead.
struct HttpArrival {
  HttpSocket socket;
  HttpRequest request;
  int refusal_status = 0;  // 0: none; 400, 411, 413, 431
  std::string why;
};

// One thread at a time.
class HttpReception {
 public:
  // Beyond these the connection that has waited longest is closed.
  static constexpr size_t kMaxWaiting = 400;
  static constexpr uint64_t kMaxHeldBytes = uint64_t{64} << 20;

  HttpReception(uint64_t body_limit_bytes, std::chrono::milliseconds receive_limit)
      : body_limit_bytes_(body_limit_bytes), receive_limit_(receive_limit) {}

  // Takes connections from `listener` and waits until one's request is whole; nothing once `stop` is readable. Who is gone, or
  // too slow, gets no answer.
  std::optional<HttpArrival> Next(const UniqueFd& listener, const UniqueFd& stop);

 private:
  enum class Progress : uint8_t { kMore, kWhole, kGone };
  struct Waiting {
    HttpSocket socket;
    HttpDeadline deadline;
    std::string text;              // of the head, then of the body
    std::optional<HttpHead> head;  // once it is whole
    int refusal_status = 0;
    std::string why;
  };
  int MillisecondsLeft() const;
  void Accept(const UniqueFd& listener, const UniqueFd& stop);
  Progress Read(Waiting* one) const;
  Progress ReadHead(Waiting* one) const;
  void Bound();

  const uint64_t body_limit_bytes_;
  const std::chrono::milliseconds receive_limit_;
  std::list<Waiting> waiting_;  // in the order in which they came
};

}  // namespace xorbit
