#include "transport/socket_io.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

namespace xorbit {
namespace {

sockaddr_in LoopbackAddress(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

Result<UniqueFd> MakeSocket() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError("cannot make a socket", errno);
  return fd;
}

// Small messages are not to wait for larger ones.
void SendAtOnce(const UniqueFd& socket) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Result<LoopbackListener> ListenOnLoopback(int most_waiting) {
  LoopbackListener listener;
  XORBIT_ASSIGN_OR_RETURN(listener.fd, MakeSocket());
  sockaddr_in address = LoopbackAddress(0);
  socklen_t length = sizeof address;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.fd.get(), name, length) != 0 || ::listen(listener.fd.get(), most_waiting) != 0 ||
      ::getsockname(listener.fd.get(), name, &length) != 0) {
    return ErrnoError("cannot listen on the loopback device", errno);
  }
  listener.port = ntohs(address.sin_port);
  return listener;
}

Result<UniqueFd> AcceptFrom(const UniqueFd& listener) {
  for (;;) {
    UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (fd.valid()) {
      SendAtOnce(fd);
      return fd;
    }
    if (errno != EINTR) return ErrnoError("cannot accept a connection", errno);
  }
}

Result<UniqueFd> ConnectToLoopback(uint16_t port) {
  XORBIT_ASSIGN_OR_RETURN(UniqueFd fd, MakeSocket());
  const sockaddr_in address = LoopbackAddress(port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return ErrnoError("cannot connect to the loopback device", errno);
  }
  SendAtOnce(fd);
  return fd;
}

Status SendAll(const UniqueFd& socket, ConstBytes bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return ErrnoError("cannot send over a connection", errno);
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return {};
}

Result<bool> ReceiveAll(const UniqueFd& socket, MutableBytes bytes) {
  bool is_first = true;
  while (!bytes.empty()) {
    const ssize_t received = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0) return ErrnoError("cannot receive over a connection", errno);
    if (received == 0 && is_first) return false;
    if (received == 0) return IoError("a connection ended within a message");
    is_first = false;
    bytes = bytes.subspan(static_cast<size_t>(received));
  }
  return true;
}

void EndConnection(const UniqueFd& socket) { ::shutdown(socket.get(), SHUT_RDWR); }

}  // namespace xorbit
