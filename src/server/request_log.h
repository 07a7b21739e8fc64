// The line of JSON that a server logs for every request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "transport/http_message.h"

namespace xorbit {

// `applied`: the version that is served, if it is known.
std::string RequestLogLine(const std::string& engine_id, const HttpRequest& request, int status, double seconds,
                           std::optional<uint64_t> applied);

}  // namespace xorbit
