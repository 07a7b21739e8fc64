// Runs device code as 32 lanes on the host: what stands behind warp.h where there is no nvcc.
//
// Each lane is a stackful coroutine that runs until it meets a collective call; once all 32 have met the same one, all get
// their results. So lanes see each other's values exactly as on a GPU, memory accesses are ordinary ones that sanitizers watch,
// and a collective call that not all lanes reach, which would hang a GPU, stops the test.
#pragma once

#include <functional>

namespace xorbit::cuda {

// Calls body() in 32 lanes and returns when all have ended. One warp at a time in a thread.
void RunWarp(const std::function<void()>& body);

}  // namespace xorbit::cuda
