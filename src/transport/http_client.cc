#include "transport/http_client.h"

#include <charconv>

#include "base/text.h"
#include "transport/http_reply.h"

namespace xorbit {
namespace {

constexpr uint64_t kReceiveBytes = uint64_t{64} << 10;

}  // namespace

Result<HttpEndpoint> ParseHttpEndpoint(std::string_view url) {
  const Status bad = UsageError(Quoted(url) + " is not an address like http://127.0.0.1:30000");
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return bad;
  std::string_view rest = url.substr(kScheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const size_t colon = rest.find(':');
  if (colon == std::string_view::npos) return bad;
  HttpEndpoint endpoint;
  endpoint.address = rest.substr(0, colon) == "localhost" ? std::string("127.0.0.1") : std::string(rest.substr(0, colon));
  const std::string_view port = rest.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (error != std::errc() || end != port.data() + port.size() || endpoint.port == 0) return bad;
  return endpoint;
}

Result<HttpReply> CallHttp(const HttpEndpoint& endpoint, const HttpCall& call, HttpDeadline deadline) {
  XORBIT_ASSIGN_OR_RETURN(HttpSocket socket, HttpSocket::Connect(endpoint.address, endpoint.port, deadline));
  std::string text = call.method + " " + call.path + " HTTP/1.1\r\n";
  text += "Host: " + endpoint.address + ":" + std::to_string(endpoint.port) + "\r\n";
  text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(call.body.size()) + "\r\n";
  if (!call.token.empty()) text += "Authorization: Bearer " + call.token + "\r\n";
  if (!call.sync_id.empty()) text += "X-Xorbit-Sync-Id: " + call.sync_id + "\r\n";
  text += "Connection: close\r\n\r\n" + call.body;
  XORBIT_RETURN_IF_ERROR(socket.Send(text, deadline));
  HttpReplyReader reader;
  std::string bytes;
  while (!reader.is_done()) {
    bytes.clear();
    XORBIT_ASSIGN_OR_RETURN(const bool more, socket.Receive(&bytes, kReceiveBytes, deadline));
    XORBIT_RETURN_IF_ERROR(more ? reader.Take(bytes) : reader.End());
  }
  return reader.reply();
}

}  // namespace xorbit
