// D of live memory, read through its map: what a receiver holds, wherever its engine has put it.
#pragma once

#include "backend/backend.h"
#include "tensor/live_memory.h"

namespace xorbit {

// The contract of Backend::ScanLive.
StateDigest ScanLiveMemory(const Layout& layout, const LiveMemory& live, ScanScope scope, int threads);

}  // namespace xorbit
