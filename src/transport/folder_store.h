// A store in a folder, local or on a network file system: the key is the path. Processes meet in link(2), which creates a name
// or fails, atomically; what they link was written and fsynced under a temporary name before.
#pragma once

#include <memory>

#include "base/file.h"
#include "transport/object_store.h"

namespace xorbit {

// The folder is made if it is missing (its parent must be there). Temporary files lie in <root>/.tmp; what killed processes
// left there a day ago is removed now. Folders that an object once needed are never removed. `ops` must outlive the store and
// be thread-safe if the store is to be.
Result<std::unique_ptr<ObjectStore>> OpenFolderStore(FileOps& ops, const fs::path& root);

}  // namespace xorbit
