// Pre-flight and apply of one payload on host memory, record by record on several threads.
#pragma once

#include "backend/backend.h"

namespace xorbit {

// The contracts of Backend::Preflight and Backend::Apply; `backend` opens the segments.
Result<ApplyReport> PreflightPayload(const Backend& backend, const Layout& layout, const PayloadView& payload, TensorBytes live,
                                     Direction direction, int threads);
Result<ApplyReport> ApplyPayload(const Backend& backend, const Layout& layout, const PayloadView& payload,
                                 MutableTensorBytes live, Direction direction, int threads);

}  // namespace xorbit
