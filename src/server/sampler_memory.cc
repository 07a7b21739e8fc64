#include "server/sampler_memory.h"

#include "backend/undo_memory.h"
#include "base/text.h"
#include "journey/store_journey.h"
#include "receive/attached_memory.h"
#include "receive/device_weights.h"
#include "receive/host_memory.h"
#include "receive/start_up.h"

namespace xorbit {
namespace {

Result<uint64_t> RequireVersion(Stream& stream, const StateDigest& state, const std::string& what, const std::string& advice) {
  XORBIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> version, VersionOfState(stream, state));
  if (version) return *version;
  return RefusedError(what + " is no version of stream " + Quoted(stream.info().stream_id) + ": " + advice);
}

Result<StateDigest> ScanAll(const Runtime& runtime, const Stream& stream, const ServedMemory& memory) {
  return runtime.backend->ScanLive(stream.layout(), memory.live(), ScanScope::kAll, runtime.threads, ServingThrottle::None());
}

}  // namespace

Result<SamplerMemory> LoadOwnMemory(const Runtime& runtime, Stream& stream, const fs::path& checkpoint,
                                    std::optional<int> device) {
  const std::string name = Quoted(checkpoint.string());
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint opened, OpenSettled(checkpoint));
  XORBIT_RETURN_IF_ERROR(RequireSameLayout(opened.layout(), name, stream.layout(), "the stream"));
  const std::vector<ConstBytes> tensors = opened.all_tensor_bytes();
  SamplerMemory own;
  if (device) {
    XORBIT_ASSIGN_OR_RETURN(own.memory, DeviceWeights::Load(stream.layout(), tensors, *device, runtime.threads));
  } else {
    own.memory = std::make_unique<HostMemory>(stream.layout(), CanonicalMap(stream.layout()));
    LoadTensors(own.memory->live(), tensors);
  }
  XORBIT_ASSIGN_OR_RETURN(const StateDigest state, ScanAll(runtime, stream, *own.memory));
  XORBIT_ASSIGN_OR_RETURN(own.version, RequireVersion(stream, state, name, "bring it to one with xorbit pull"));
  return own;
}

Status BringToNewest(const Runtime& runtime, Stream& stream, uint64_t staging_limit_bytes, SamplerMemory* own) {
  XORBIT_ASSIGN_OR_RETURN(const uint64_t newest, stream.Newest());
  const StartUpOptions options{.threads = runtime.threads, .staging_limit_bytes = staging_limit_bytes};
  XORBIT_RETURN_IF_ERROR(StartUp(stream, *runtime.backend, own->memory->live(), own->version, newest, options).status());
  own->version = newest;
  return {};
}

Result<SamplerMemory> AttachMemory(const Runtime& runtime, Stream& stream, const fs::path& attachment, bool has_devices) {
  XORBIT_ASSIGN_OR_RETURN(auto memory, AttachedMemory::Attach(attachment, stream.layout()));
  const std::string name = Quoted(attachment.string());
  if (memory->on_device() && !has_devices) {
    return UsageError("the weights of " + name + " lie on a device: serve them with --backend cuda");
  }
  SamplerMemory attached;
  attached.advice = memory->advice();
  attached.memory = std::move(memory);
  if (const MutableBytes undo_memory = attached.memory->undo_memory(); !undo_memory.empty()) {
    XORBIT_ASSIGN_OR_RETURN(const UndoMemory undo, UndoMemory::Open(undo_memory));
    if (undo.record()) return attached;
  }
  XORBIT_ASSIGN_OR_RETURN(const StateDigest state, ScanAll(runtime, stream, *attached.memory));
  XORBIT_ASSIGN_OR_RETURN(attached.version, RequireVersion(stream, state, "what the engine of " + name + " holds",
                                                           "start it again from a checkpoint that is one"));
  return attached;
}

}  // namespace xorbit
