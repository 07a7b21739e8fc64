// HTTP/1.1 as a control plane needs it: short requests with a body of known length, one a connection. Pure: text in, values
// out; http_server.h has the sockets. Our own because Debian and Ubuntu ship no archive of an HTTP server to link
// (docs/dependencies.md), and because every byte of a request comes from whoever can reach the port.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace xorbit {

inline constexpr uint64_t kMaxHttpHeadBytes = uint64_t{16} << 10;

struct HttpRequest {
  std::string method;         // as sent: upper case
  std::string path;           // what stands before '?', as sent: percent signs are not decoded
  std::string query;          // what stands after it
  std::string authorization;  // the value of the header of that name
  bool of_web_page = false;   // a browser sent it for a page, by its Origin or Sec-Fetch-Site
  std::string sync_id;        // of x-xorbit-sync-id: one id for all that belongs to one update
  std::string body;
};

struct HttpHead {
  HttpRequest request;  // without its body
  uint64_t body_bytes = 0;
  bool expects_continue = false;  // the client waits for a word before it sends the body
};

struct HttpReply {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  int64_t retry_after_seconds = 0;  // 0: the client is not told
};

// A request's head, with the empty line at its end. kCorrupt if it does not follow RFC 9112 or leaves room for two readings
// (repeated lengths, blanks before a colon, folded lines); kUnsupported for bodies without a length and other versions.
Result<HttpHead> ParseHttpHead(std::string_view text);

// The value of `name` in "name=value&..."; empty if it is not there. Values with percent signs come out as they are.
std::string_view QueryValue(std::string_view query, std::string_view name);

// Closes the connection after it. `status` is one that ReasonOf knows.
std::string WriteHttpReply(const HttpReply& reply);
std::string_view ReasonOf(int status);

struct HttpReplyHead {
  int status = 0;  // 100 to 599
  std::string content_type;
  std::optional<uint64_t> body_bytes;
  bool is_chunked = false;
  int64_t retry_after_seconds = 0;  // 0: it does not say, or by a date
};

// A reply's head, with the empty line at its end. kCorrupt, kUnsupported as of ParseHttpHead, but that chunks have a length.
Result<HttpReplyHead> ParseHttpReplyHead(std::string_view text);

}  // namespace xorbit
