#include "cli/store_options.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "store/store_keys.h"
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

void AddHostCacheOptions(CLI::App* command, HostCacheChoice* choice) {
  CLI::Option* folder = command->add_option("--host-cache", choice->folder,
                                            "A folder, best in memory (/dev/shm/NAME), through which the servers of this host "
                                            "fetch every payload once");
  folder->check(NotEmpty());
  command->add_option("--host-cache-gigabytes", choice->gigabytes, "How large it may be; the oldest payloads go first (16)")
      ->check(NumberBetween(0.001, 1e6))
      ->needs(folder);
}

namespace {

// What lies there is read by all who share it, so it must be written by nobody else.
Status MakePrivate(const std::string& folder) {
  if (::mkdir(folder.c_str(), S_IRWXU) == 0) return {};
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return IoError("cannot make the folder " + Quoted(folder) + " for --host-cache");
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return RefusedError("others may write to " + Quoted(folder) +
                        ": --host-cache needs a folder of this user's own (chmod 700)");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<NearStore>> OpenNearStore(const Runtime& runtime, const StoreOptions& options,
                                                 const HostCacheChoice& choice) {
  auto near = std::make_unique<NearStore>();
  XORBIT_ASSIGN_OR_RETURN(near->far, OpenStore(runtime, options, /*may_create=*/false));
  if (choice.folder.empty()) return near;
  XORBIT_RETURN_IF_ERROR(MakePrivate(choice.folder));
  HostCacheOptions cache;
  cache.keeps = IsPayloadKey;
  cache.limit_bytes = static_cast<uint64_t>(choice.gigabytes * 1e9);
  near->cache = OpenHostCache(*near->far, *runtime.file_ops, choice.folder, cache, &near->fetched);
  return near;
}

}  // namespace xorbit
