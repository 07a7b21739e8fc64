#include "backend/cuda/testing/nccl_library.h"

#include <dlfcn.h>

#include <numeric>
#include <utility>

namespace xorbit::cuda::testing {
namespace {

constexpr int kNcclUint8 = 1;

template <typename Function>
bool Find(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(::dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

// As nccl.h declares them: results are ints, 0 is success; a communicator is a pointer.
struct NcclBroadcaster::Calls {
  int (*get_version)(int* version) = nullptr;
  int (*comm_init_all)(void** communicators, int device_count, const int* devices) = nullptr;
  int (*comm_destroy)(void* communicator) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*broadcast)(const void* from, void* to, size_t count, int type, int root, void* communicator,
                   cudaStream_t stream) = nullptr;
  const char* (*get_error_string)(int result) = nullptr;

  bool FindAll(void* library) {
    return Find(library, "ncclGetVersion", &get_version) && Find(library, "ncclCommInitAll", &comm_init_all) &&
           Find(library, "ncclCommDestroy", &comm_destroy) && Find(library, "ncclGroupStart", &group_start) &&
           Find(library, "ncclGroupEnd", &group_end) && Find(library, "ncclBroadcast", &broadcast) &&
           Find(library, "ncclGetErrorString", &get_error_string);
  }
};

Result<NcclBroadcaster> NcclBroadcaster::Make(const std::string& folder, int device_count) {
  const std::string path = folder.empty() ? "libnccl.so.2" : folder + "/libnccl.so.2";
  NcclBroadcaster nccl;
  nccl.library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (nccl.library_ == nullptr) return UnsupportedError("no NCCL here: " + std::string(::dlerror()));
  static Calls calls;  // of the one library that there is; it stays loaded
  if (!calls.FindAll(nccl.library_)) return UnsupportedError(path + " lacks calls of NCCL 2");
  nccl.calls_ = &calls;
  XORBIT_RETURN_IF_ERROR(nccl.StatusOf(calls.get_version(&nccl.version_), "ncclGetVersion"));
  std::vector<int> devices(static_cast<size_t>(device_count));
  std::iota(devices.begin(), devices.end(), 0);
  nccl.communicators_.resize(devices.size());
  const Status made =
      nccl.StatusOf(calls.comm_init_all(nccl.communicators_.data(), device_count, devices.data()), "ncclCommInitAll");
  if (made.ok()) return nccl;
  nccl.communicators_.clear();
  return made;
}

NcclBroadcaster::NcclBroadcaster(NcclBroadcaster&& other) noexcept
    : library_(std::exchange(other.library_, nullptr)),
      calls_(other.calls_),
      version_(other.version_),
      communicators_(std::exchange(other.communicators_, {})) {}

NcclBroadcaster::~NcclBroadcaster() {
  for (void* communicator : communicators_) static_cast<void>(calls_->comm_destroy(communicator));
}

Status NcclBroadcaster::Broadcast(const void* from_dev, const std::vector<void*>& to_dev, size_t byte_count,
                                  const std::vector<cudaStream_t>& streams) {
  XORBIT_RETURN_IF_ERROR(StatusOf(calls_->group_start(), "ncclGroupStart"));
  for (size_t i = 0; i < communicators_.size(); ++i) {
    const int result = calls_->broadcast(from_dev, to_dev[i], byte_count, kNcclUint8, 0, communicators_[i], streams[i]);
    XORBIT_RETURN_IF_ERROR(StatusOf(result, "ncclBroadcast"));
  }
  return StatusOf(calls_->group_end(), "ncclGroupEnd");
}

Status NcclBroadcaster::StatusOf(int result, const char* call) const {
  if (result == 0) return {};
  return UnsupportedError(std::string(call) + ": " + calls_->get_error_string(result));
}

}  // namespace xorbit::cuda::testing
