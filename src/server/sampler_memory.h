// Where a sampler's weights lie, and which version of the stream they are when it starts.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "journey/journey.h"
#include "receive/served_memory.h"
#include "store/stream.h"

namespace xorbit {

struct SamplerMemory {
  std::unique_ptr<ServedMemory> memory;
  uint64_t version = 0;  // of what it holds; undo memory that says otherwise is right
  std::string advice;    // AttachedMemory::advice
};

// A checkpoint, loaded into memory of this process: the host's, or a device's, if there is a number of one. kRefused if it is
// no version of the stream.
Result<SamplerMemory> LoadOwnMemory(const Runtime& runtime, Stream& stream, const fs::path& checkpoint,
                                    std::optional<int> device);

// What an engine exports (AttachedMemory::Attach). kRefused if it holds no version of the stream, unless an update was cut off,
// which GatedSampler::Start takes back. kUsage if it lies on a device and the backend cannot reach those.
Result<SamplerMemory> AttachMemory(const Runtime& runtime, Stream& stream, const fs::path& attachment, bool has_devices);

// Takes memory of our own to the newest version, a portion of a delta at a time, at most so many bytes of payloads at once.
Status BringToNewest(const Runtime& runtime, Stream& stream, uint64_t staging_limit_bytes, SamplerMemory* own);

}  // namespace xorbit
