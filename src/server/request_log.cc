#include "server/request_log.h"

#include <chrono>

#include "base/json.h"
#include "server/reply.h"

namespace xorbit {

std::string RequestLogLine(const std::string& engine_id, const HttpRequest& request, int status, double seconds,
                           std::optional<uint64_t> applied) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return DumpJson({{"time_ms", std::chrono::duration_cast<std::chrono::milliseconds>(now).count()},
                   {"engine_id", engine_id},
                   {"sync_id", request.sync_id},
                   {"method", request.method},
                   {"path", request.path},
                   {"status", status},
                   {"seconds", seconds},
                   {"applied", OrNull(applied)}});
}

}  // namespace xorbit
