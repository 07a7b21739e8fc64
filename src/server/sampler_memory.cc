#include "server/sampler_memory.h"

#include "backend/undo_memory.h"
#include "base/text.h"
#include "journey/store_journey.h"
#include "receive/attached_memory.h"
#include "receive/host_memory.h"

namespace xorbit {
namespace {

Result<uint64_t> RequireVersion(Stream& stream, const StateDigest& state, const std::string& what, const std::string& advice) {
  XORBIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> version, VersionOfState(stream, state));
  if (version) return *version;
  return RefusedError(what + " is no version of stream " + Quoted(stream.info().stream_id) + ": " + advice);
}

}  // namespace

Result<SamplerMemory> LoadOwnMemory(const Runtime& runtime, Stream& stream, const fs::path& checkpoint) {
  const std::string name = Quoted(checkpoint.string());
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint opened, OpenSettled(checkpoint));
  XORBIT_RETURN_IF_ERROR(RequireSameLayout(opened.layout(), name, stream.layout(), "the stream"));
  const std::vector<ConstBytes> tensors = opened.all_tensor_bytes();
  const StateDigest state = runtime.backend->Scan(stream.layout(), tensors, ScanScope::kAll, runtime.threads);
  SamplerMemory own;
  XORBIT_ASSIGN_OR_RETURN(own.version, RequireVersion(stream, state, name, "bring it to one with xorbit pull"));
  own.memory = std::make_unique<HostMemory>(stream.layout(), CanonicalMap(stream.layout()));
  LoadTensors(own.memory->live(), tensors);
  return own;
}

Result<SamplerMemory> AttachMemory(const Runtime& runtime, Stream& stream, const fs::path& attachment) {
  SamplerMemory attached;
  XORBIT_ASSIGN_OR_RETURN(attached.memory, AttachedMemory::Attach(attachment, stream.layout()));
  XORBIT_ASSIGN_OR_RETURN(const UndoMemory undo, UndoMemory::Open(attached.memory->undo_memory()));
  if (undo.record()) return attached;
  XORBIT_ASSIGN_OR_RETURN(const StateDigest state,
                          runtime.backend->ScanLive(stream.layout(), attached.memory->live(), ScanScope::kAll, runtime.threads,
                                                    ServingThrottle::None()));
  XORBIT_ASSIGN_OR_RETURN(attached.version,
                          RequireVersion(stream, state, "what the engine of " + Quoted(attachment.string()) + " holds",
                                         "start it from a checkpoint that is one"));
  return attached;
}

}  // namespace xorbit
