#include "cli/store_options.h"

#include "base/text.h"
#include "transport/folder_store.h"

namespace xorbit {

void AddStoreOptions(CLI::App* command, StoreOptions* options) {
  command->add_option("STORE", options->store, "A folder, local or on a network file system")->required();
  command->add_option("--stream", options->stream_id, "Which stream; may be left out while the store has one");
}

Result<std::unique_ptr<ObjectStore>> OpenStore(const Runtime& runtime, const StoreOptions& options, bool may_create) {
  if (options.store.find("://") != std::string::npos) {
    return UnsupportedError(Quoted(options.store) + ": this build reads and writes stores in folders only");
  }
  std::error_code ignored;
  if (!may_create && !fs::is_directory(options.store, ignored)) {
    return NotFoundError(Quoted(options.store) + " is not a store: there is no such folder");
  }
  return OpenFolderStore(*runtime.file_ops, options.store);
}

}  // namespace xorbit
