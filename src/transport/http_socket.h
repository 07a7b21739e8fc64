// A TCP connection on which every wait has a deadline. It never blocks by itself: a peer that stops reading or sending costs
// its own request and nothing else.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"

namespace xorbit {

using HttpDeadline = std::chrono::steady_clock::time_point;

// One thread at a time.
class HttpSocket {
 public:
  HttpSocket() = default;
  explicit HttpSocket(UniqueFd fd) : fd_(std::move(fd)) {}  // non-blocking
  // kIo if nobody listens there, with `address` as digits ("127.0.0.1").
  static Result<HttpSocket> Connect(const std::string& address, uint16_t port, HttpDeadline deadline);

  // Appends what has come, at least one byte and at most `limit_bytes`; false at the end of the connection. kIo when the
  // deadline passes, or `stop_fd` (if it is not -1) becomes readable.
  Result<bool> Receive(std::string* text, uint64_t limit_bytes, HttpDeadline deadline, int stop_fd = -1);
  Status Send(std::string_view text, HttpDeadline deadline);
  int fd() const { return fd_.get(); }  // to wait for it among others
  // Says that nothing more will be sent, and lets the peer read what was, although it is still sending.
  void Finish();

 private:
  Status Await(short events, HttpDeadline deadline, int stop_fd) const;

  UniqueFd fd_;
};

// A non-blocking socket that listens; `port` 0 has the system choose. kUsage if `address` is not an IPv4 address in digits.
Result<UniqueFd> ListenOn(const std::string& address, uint16_t port);
Result<uint16_t> PortOf(const UniqueFd& listener);
// The next connection, non-blocking; an invalid descriptor if another thread has taken it, or it is gone.
UniqueFd AcceptNext(const UniqueFd& listener);

}  // namespace xorbit
