// old + new -> diff -> encode -> payload -> delta folder.
#include <cstring>

#include "base/text.h"
#include "journey/journey.h"
#include "journey/sealing.h"

namespace xorbit {
namespace {

// A frozen tensor that changed would be lost silently: nobody owns it.
Status CheckFrozen(const Layout& layout, TensorBytes old_bytes, TensorBytes new_bytes) {
  for (size_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    if (!tensor.frozen || std::memcmp(old_bytes[i].data(), new_bytes[i].data(), old_bytes[i].size()) == 0) continue;
    return RefusedError("tensor " + Quoted(tensor.name) + " is frozen, but it changes");
  }
  return {};
}

}  // namespace

Result<DeltaSummary> MakeDelta(const Runtime& runtime, const Checkpoint& old_checkpoint, const Checkpoint& new_checkpoint,
                               const fs::path& delta, const DeltaOptions& options) {
  XORBIT_RETURN_IF_ERROR(RequireSameLayout(old_checkpoint.layout(), Quoted(old_checkpoint.path().string()),
                                           new_checkpoint.layout(), Quoted(new_checkpoint.path().string())));
  XORBIT_ASSIGN_OR_RETURN(const Layout layout, ApplyRules(old_checkpoint.layout(), options.rules));
  XORBIT_ASSIGN_OR_RETURN(const auto owners, PlanOwners(layout, options.owner_count, options.split));
  const std::vector<ConstBytes> old_bytes = old_checkpoint.all_tensor_bytes();
  const std::vector<ConstBytes> new_bytes = new_checkpoint.all_tensor_bytes();
  const CodecId codec = options.codec.value_or(CodecId::kSparse);
  EncodeOptions encode = options.encode;
  encode.threads = runtime.threads;

  StateDigest base;
  {
    const Stage stage(runtime.timers, "frozen");
    XORBIT_RETURN_IF_ERROR(CheckFrozen(layout, old_bytes, new_bytes));
    base = runtime.backend->Scan(layout, old_bytes, ScanScope::kFrozen, runtime.threads);  // owners report their own
  }
  if (runtime.progress != nullptr) runtime.progress->Begin("diff", layout.total_bytes());
  std::vector<Payload> payloads;
  for (uint32_t owner = 0; owner < owners.size(); ++owner) {
    EncodedOwner encoded;
    {
      const Stage stage(runtime.timers, "diff + encode");
      XORBIT_ASSIGN_OR_RETURN(encoded,
                              runtime.backend->EncodeDiff(layout, owners[owner], {.bytes = InTensors(owners[owner], old_bytes)},
                                                          InTensors(owners[owner], new_bytes), codec, encode));
    }
    base += encoded.base;
    const Stage stage(runtime.timers, "hash");
    XORBIT_ASSIGN_OR_RETURN(Payload payload, WritePayload(layout, {codec, owner, options.owner_count}, owners[owner],
                                                          std::move(encoded.segments), runtime.threads));
    payloads.push_back(std::move(payload));
    if (runtime.progress != nullptr) {
      for (const SegmentMap& map : owners[owner]) runtime.progress->done += map.byte_count();
    }
  }

  // Beyond this point the delta's bytes are fixed; they are written whole or not at all.
  return SealDelta(runtime, delta, layout, payloads, base, base + TotalChange(payloads));
}

Result<MilesWriteReport> MakeMilesDelta(const Runtime& runtime, const Checkpoint& old_checkpoint,
                                        const Checkpoint& new_checkpoint, const fs::path& folder, const LayoutRules& rules,
                                        MilesWriteOptions options) {
  const Stage stage(runtime.timers, "diff + encode + write");
  XORBIT_RETURN_IF_ERROR(RequireSameLayout(old_checkpoint.layout(), Quoted(old_checkpoint.path().string()),
                                           new_checkpoint.layout(), Quoted(new_checkpoint.path().string())));
  XORBIT_ASSIGN_OR_RETURN(const Layout layout, ApplyRules(old_checkpoint.layout(), rules));
  options.threads = runtime.threads;
  return WriteMilesFolder(*runtime.file_ops, folder, layout, old_checkpoint.all_tensor_bytes(),
                          new_checkpoint.all_tensor_bytes(), options);
}

}  // namespace xorbit
