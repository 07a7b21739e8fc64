// Pre-flight on host memory: everything that can be checked and computed before the pause, in one pass over the records.
#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"

namespace xorbit {

// The contract of Backend::Prepare; `backend` opens the segments.
Result<std::unique_ptr<PreparedUpdate>> PrepareUpdate(const Backend& backend, const Layout& layout,
                                                      std::span<const PayloadView> payloads, const LiveMemory& live,
                                                      const PrepareOptions& options);

}  // namespace xorbit
