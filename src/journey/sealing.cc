#include "journey/sealing.h"

namespace xorbit {

StateDigest TotalChange(const std::vector<Payload>& payloads) {
  StateDigest change;
  for (const Payload& payload : payloads) change += payload.change;
  return change;
}

Result<DeltaSummary> SealDelta(const Runtime& runtime, const fs::path& delta, const Layout& layout,
                               const std::vector<Payload>& payloads, const StateDigest& base, const StateDigest& target) {
  const Stage stage(runtime.timers, "write");
  DeltaSummary summary;
  XORBIT_ASSIGN_OR_RETURN(summary.manifest, SealManifest(layout, payloads, base, target));
  XORBIT_RETURN_IF_ERROR(WriteDeltaFolder(*runtime.file_ops, delta, layout, summary.manifest, payloads));
  for (const Payload& payload : payloads) summary.payload_bytes += payload.byte_count;
  summary.manifest_bytes = WriteManifest(summary.manifest).size();
  return summary;
}

}  // namespace xorbit
