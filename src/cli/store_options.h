// What the commands on stores share: the STORE argument and --stream.
#pragma once

#include <memory>
#include <string>

#include "cli/command.h"
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

}  // namespace xorbit
