// What the commands on stores share: the STORE argument and --stream.
#pragma once

#include <memory>
#include <string>

#include "cli/command.h"
#include "transport/host_cache.h"
#include "transport/object_store.h"

namespace xorbit {

struct StoreOptions {
  std::string store;
  std::string stream_id;
};

void AddStoreOptions(CLI::App* command, StoreOptions* options);

// kUnsupported for addresses of kinds that this build does not have; kNotFound for a folder that is not there, unless
// `may_create`.
Result<std::unique_ptr<ObjectStore>> OpenStore(const Runtime& runtime, const StoreOptions& options, bool may_create);

// A store, and in front of it what the processes of this host have fetched already.
struct NearStore {
  std::unique_ptr<ObjectStore> far;
  HostCacheCounts fetched;
  std::unique_ptr<ObjectStore> cache;  // none: every process fetches for itself
  ObjectStore& store() const { return cache ? *cache : *far; }
};

struct HostCacheChoice {
  std::string folder;  // empty: no cache
  double gigabytes = 16;
};

void AddHostCacheOptions(CLI::App* command, HostCacheChoice* choice);

// The folder is made if it is not there. kRefused if others than this user may write to it. Errors of OpenStore.
Result<std::unique_ptr<NearStore>> OpenNearStore(const Runtime& runtime, const StoreOptions& options,
                                                 const HostCacheChoice& choice);

}  // namespace xorbit
