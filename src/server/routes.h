// The one table of what can be asked: method, path, who may ask, and who answers. An endpoint of SGLang's, vLLM's or the
// reference's with nothing behind it stands here too, with the line that says so (501): success is never reported for work that
// was not done.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/control_fields.h"
#include "server/rate_limit.h"
#include "server/sampler_session.h"
#include "transport/http_message.h"

namespace xorbit {

enum class Role : uint8_t {
  kOpen,   // anybody who reaches the port
  kRead,   // whoever may look
  kAdmin,  // whoever may change what is served
};

template <typename Session>
struct RouteOf {
  std::string_view method;
  std::string_view path;
  Role role;
  HttpReply (*handler)(Session& session, const ControlFields& fields);  // null: nothing is behind it,
  std::string_view summary;                                             // and this says why
};
using Route = RouteOf<SamplerSession>;

std::span<const Route> AllRoutes();

// Bearer tokens. With none at all everybody is an admin; whoever has the admin's may read too.
struct AccessRules {
  std::string admin_token;
  std::string read_token;
};

// The whole way from a request to its reply: route, role, rate, body, wanted version, handler. Thread-safe.
HttpReply Dispatch(SamplerSession& session, const AccessRules& access, RateLimit& limit, const HttpRequest& request);

}  // namespace xorbit
