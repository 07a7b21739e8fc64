#include "transport/http_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/text.h"

namespace xorbit {
namespace {

constexpr int kBacklog = 128;
constexpr uint64_t kReceiveBytes = uint64_t{16} << 10;
constexpr std::chrono::milliseconds kLinger{200};  // how long a peer may go on sending what nobody wants

Result<sockaddr_in> AddressOf(const std::string& address, uint16_t port) {
  sockaddr_in ip{};
  ip.sin_family = AF_INET;
  ip.sin_port = htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &ip.sin_addr) != 1) {
    return UsageError(Quoted(address) + " is not an IPv4 address in digits, as in 127.0.0.1");
  }
  return ip;
}

int MillisecondsUntil(HttpDeadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

Result<UniqueFd> MakeSocket() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError("socket", errno);
  const int on = 1;
  (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

}  // namespace

Result<HttpSocket> HttpSocket::Connect(const std::string& address, uint16_t port, HttpDeadline deadline) {
  XORBIT_ASSIGN_OR_RETURN(const sockaddr_in ip, AddressOf(address, port));
  XORBIT_ASSIGN_OR_RETURN(UniqueFd fd, MakeSocket());
  HttpSocket socket(std::move(fd));
  const std::string where = "connect to " + address + ":" + std::to_string(port);
  if (::connect(socket.fd_.get(), reinterpret_cast<const sockaddr*>(&ip), sizeof(ip)) != 0) {
    if (errno != EINPROGRESS) return ErrnoError(where, errno);
    XORBIT_RETURN_IF_ERROR(socket.Await(POLLOUT, deadline, -1).WithContext(where));
    int error = 0;
    socklen_t size = sizeof(error);
    if (::getsockopt(socket.fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return ErrnoError(where, error);
  }
  return socket;
}

Status HttpSocket::Await(short events, HttpDeadline deadline, int stop_fd) const {
  for (;;) {
    pollfd polled[] = {{fd_.get(), events, 0}, {stop_fd, POLLIN, 0}};
    const int count = ::poll(polled, stop_fd >= 0 ? 2 : 1, MillisecondsUntil(deadline));
    if (count < 0 && errno != EINTR) return ErrnoError("poll", errno);
    if (count > 0 && stop_fd >= 0 && polled[1].revents != 0) return IoError("stopped");
    if (count > 0) return {};
    if (std::chrono::steady_clock::now() >= deadline) return IoError("timed out");
  }
}

Result<bool> HttpSocket::Receive(std::string* text, uint64_t limit_bytes, HttpDeadline deadline, int stop_fd) {
  char bytes[kReceiveBytes];
  for (;;) {
    const ssize_t count = ::recv(fd_.get(), bytes, std::min<uint64_t>(limit_bytes, sizeof(bytes)), 0);
    if (count > 0) text->append(bytes, static_cast<size_t>(count));
    if (count >= 0) return count > 0;
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return ErrnoError("receive", errno);
    XORBIT_RETURN_IF_ERROR(Await(POLLIN, deadline, stop_fd));
  }
}

Status HttpSocket::Send(std::string_view text, HttpDeadline deadline) {
  while (!text.empty()) {
    const ssize_t count = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      text.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
      XORBIT_RETURN_IF_ERROR(Await(POLLOUT, deadline, -1));
    } else {
      return ErrnoError("send", errno);
    }
  }
  return {};
}

// Closing a socket with bytes that nobody has read resets the connection, and the reply may be lost on its way.
void HttpSocket::Finish() {
  if (::shutdown(fd_.get(), SHUT_WR) != 0) return;
  const HttpDeadline deadline = std::chrono::steady_clock::now() + kLinger;
  std::string ignored;
  for (;;) {
    const Result<bool> more = Receive(&ignored, kReceiveBytes, deadline);
    if (!more.ok() || !*more || std::chrono::steady_clock::now() >= deadline) return;
    ignored.clear();
  }
}

Result<UniqueFd> ListenOn(const std::string& address, uint16_t port) {
  XORBIT_ASSIGN_OR_RETURN(const sockaddr_in ip, AddressOf(address, port));
  XORBIT_ASSIGN_OR_RETURN(UniqueFd fd, MakeSocket());
  const int on = 1;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const std::string where = "listen on " + address + ":" + std::to_string(port);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&ip), sizeof(ip)) != 0) return ErrnoError(where, errno);
  if (::listen(fd.get(), kBacklog) != 0) return ErrnoError(where, errno);
  return fd;
}

Result<uint16_t> PortOf(const UniqueFd& listener) {
  sockaddr_in ip{};
  socklen_t size = sizeof(ip);
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&ip), &size) != 0) return ErrnoError("getsockname", errno);
  return ntohs(ip.sin_port);
}

UniqueFd AcceptNext(const UniqueFd& listener) {
  UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  const int on = 1;
  if (fd.valid()) (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

}  // namespace xorbit
