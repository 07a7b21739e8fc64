// Taking back what another process did not finish.
#pragma once

#include "backend/undo_memory.h"
#include "base/status.h"
#include "tensor/live_memory.h"

namespace xorbit {

// Backend::RollBack of host memory.
Status RollBackLive(const Layout& layout, const LiveMemory& live, UndoMemory* undo, int threads);

}  // namespace xorbit
