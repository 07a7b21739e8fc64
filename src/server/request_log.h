// The line of JSON that a server logs for every request.
#pragma once

#include <string>

#include "transport/http_message.h"

namespace xorbit {

std::string RequestLogLine(const std::string& engine_id, const HttpRequest& request, int status, double seconds,
                           uint64_t applied);

}  // namespace xorbit
