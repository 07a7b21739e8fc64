// Launches of the sender's stages, in stream order on the caller's stream. `send` describes one segment; all that it points to
// is device memory.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/send_on_device.h"
#include "base/status.h"

namespace xorbit::cuda {

// Finds the changes of these strips: fills the unordered store. With `with_base` it adds the digest of their old bytes to the
// counters.
Status LaunchDiff(const SendOnDevice& send, const StripRange& range, bool with_base, cudaStream_t stream);
// Counts changes by window and group, and makes starts of the groups' counts.
Status LaunchGroupScan(const SendOnDevice& send, cudaStream_t stream);
// Looks for dense windows.
Status LaunchWindowCheck(const SendOnDevice& send, cudaStream_t stream);
// Puts changes in order, counts the symbols of PlainTiles and sums their digests.
Status LaunchGather(const SendOnDevice& send, cudaStream_t stream);
// The same sums of tiles that were planned, of changes that are in order.
Status LaunchSurvey(const SendOnDevice& send, cudaStream_t stream);
// Codes all tiles into scratch.
Status LaunchEncode(const SendOnDevice& send, cudaStream_t stream);
// Tells each tile where it begins.
Status LaunchTileScan(const SendOnDevice& send, cudaStream_t stream);
// Writes the body.
Status LaunchPack(const SendOnDevice& send, cudaStream_t stream);
// Makes the old bytes the new ones, by the changes alone, wherever they were.
Status LaunchBringForward(const SendOnDevice& send, cudaStream_t stream);

}  // namespace xorbit::cuda
