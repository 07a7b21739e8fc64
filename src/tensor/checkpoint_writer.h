// Writes checkpoints, streaming: for the demo, benchmarks and tests. The files are what the Python package and the usual tools
// would write for the same tensors, byte for byte, so that rivals' tools read them and nothing is special about our inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "tensor/layout.h"

namespace xorbit {

// Fills `out` with the bytes of tensor `tensor_index` from `offset_bytes` on; both ends are on whole units. Called by one
// thread, in the order of the file, for every byte once; at most 4 MiB a call. Its error ends the writing.
using TensorFiller = std::function<Status(uint32_t tensor_index, uint64_t offset_bytes, MutableBytes out)>;

// A filler for tensors in memory, indexed like the layout. What the spans show must outlive it.
TensorFiller FillFrom(std::vector<ConstBytes> tensors);

using SafetensorsMetadata = std::map<std::string, std::string>;

// Creates `file` with all tensors of the layout and fsyncs it, not the folder. kExists if it is there; after any other error it
// is removed. Memory: the header and 4 MiB.
Status WriteCheckpointFile(FileOps& ops, const fs::path& file, const Layout& layout, const TensorFiller& fill,
                           const SafetensorsMetadata& metadata = {{"format", "pt"}});

// Creates `folder` whole or not at all (kExists if it is there): model-00001-of-0000N.safetensors with tensors in layout order,
// each file up to `max_file_bytes` of tensor bytes but at least one tensor, and model.safetensors.index.json. Durable on
// success.
Status WriteShardedCheckpoint(FileOps& ops, const fs::path& folder, const Layout& layout, const TensorFiller& fill,
                              uint64_t max_file_bytes, const SafetensorsMetadata& metadata = {{"format", "pt"}});

}  // namespace xorbit
