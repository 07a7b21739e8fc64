// One HTTP request and its reply, by a deadline: how a driver speaks to samplers. For addresses in digits, without TLS.
#pragma once

#include <string>
#include <string_view>

#include "transport/http_message.h"
#include "transport/http_socket.h"

namespace xorbit {

struct HttpEndpoint {
  std::string address;  // "127.0.0.1"
  uint16_t port = 0;
};

// "http://127.0.0.1:30000", with or without a slash at the end. kUsage for anything else; "localhost" is 127.0.0.1.
Result<HttpEndpoint> ParseHttpEndpoint(std::string_view url);

struct HttpCall {
  std::string method = "POST";
  std::string path;
  std::string body;
  std::string token;    // empty: none
  std::string sync_id;  // empty: none
};

// The reply, whatever its status, as soon as it is whole. kIo if there is none by the deadline: the request may have been
// worked on all the same. kCorrupt, kUnsupported as of HttpReplyReader.
Result<HttpReply> CallHttp(const HttpEndpoint& endpoint, const HttpCall& call, HttpDeadline deadline);

}  // namespace xorbit
