// One fetch a host: a folder, best in memory, that the processes of a host put in front of a store that is far away. Of the
// objects that many of them need, the first to ask fetches, under a lock; the others find a file.
//
// Only objects that never change are kept, which the caller tells by their keys: a payload's key holds its hash. What is in the
// folder is believed no more than the store: who reads verifies, in memory of its own, and has a damaged copy dropped.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/file.h"
#include "transport/object_store.h"

namespace xorbit {

struct HostCacheOptions {
  std::function<bool(std::string_view key)> keeps;  // of which objects a copy is kept
  uint64_t limit_bytes = UINT64_MAX;                // of the copies: the oldest go first
  std::chrono::milliseconds patience{10'000};       // with somebody who fetches and does not get on
};

// What this process has fetched from the store behind: objects that are kept, whole.
struct HostCacheCounts {
  std::atomic<uint64_t> objects{0};
  std::atomic<uint64_t> bytes{0};
};

// A store that reads what it keeps through `folder`, which must be there, and passes everything else on. A process that is
// killed while it fetches holds up nobody, one that is stopped only for as long as `patience`, once a minute. Other files in
// the folder are left alone. If the folder is full or cannot be written, objects are read from the store as without it.
// `store`, `ops` and `counts` outlive it.
std::unique_ptr<ObjectStore> OpenHostCache(ObjectStore& store, FileOps& ops, const fs::path& folder, HostCacheOptions options,
                                           HostCacheCounts* counts);

}  // namespace xorbit
