// A store in a folder, local or on a network file system: the key is the path. Processes meet in link(2), which creates a name
// or fails, atomically; what they link was written and fsynced under a temporary name before.
#pragma once

#include <memory>

#include "base/file.h"
#include "transport/object_store.h"

namespace xorbit {

// Nothing is touched before the first write: that makes the folder if it is missing (its parent must be there), and removes
// what killed processes left in <root>/.tmp, where temporary files lie, a day ago. The store's clock is read by a write.
// Folders that an object once needed are never removed. Links to folders inside the store are followed by name, but not listed.
// `ops` must outlive the store and be thread-safe if the store is to be.
Result<std::unique_ptr<ObjectStore>> OpenFolderStore(FileOps& ops, const fs::path& root);

}  // namespace xorbit
