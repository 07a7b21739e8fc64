// The two ends of the link of `xorbit bench --end-to-end`.
#include <algorithm>

#include "cli/end_to_end_run.h"
#include "store/store_keys.h"
#include "transport/folder_store.h"

namespace xorbit {
namespace {

LinkTurn TurnOf(std::string_view key) {
  if (key.ends_with("/head.json")) return LinkTurn::kNever;  // a hint, which changes
  const bool vouches = key.ends_with("/manifest.json") || key.ends_with("/version.json") || key.ends_with("/stream.json");
  return vouches ? LinkTurn::kAfterOthers : LinkTurn::kAnytime;
}

// The version that an object belongs to; 0 for those of the stream.
uint64_t VersionOf(const EndToEndRun& run, std::string_view key) {
  for (uint64_t version = 1; version <= run.round_count; ++version) {
    if (key.starts_with(VersionFolder(kEndToEndStream, version))) return version;
  }
  return 0;
}

// From the first byte of any object of a version to the last one's landing.
void AddObjects(const EndToEndRun& run, const std::vector<LinkedObject>& objects, MarkLog* log) {
  struct Sum {
    int64_t sent_ns = INT64_MAX;
    int64_t payload_arrived_ns = 0;
    int64_t payload_landed_ns = 0;
    int64_t landed_ns = 0;
    uint64_t byte_count = 0;
  };
  std::map<uint64_t, Sum> sums;
  for (const LinkedObject& object : objects) {
    Sum& sum = sums[VersionOf(run, object.key)];
    sum.sent_ns = std::min(sum.sent_ns, object.sent_ns);
    sum.landed_ns = std::max(sum.landed_ns, object.landed_ns);
    sum.byte_count += object.byte_count;
    if (!IsPayloadKey(object.key)) continue;
    sum.payload_arrived_ns = std::max(sum.payload_arrived_ns, object.arrives_ns);
    sum.payload_landed_ns = std::max(sum.payload_landed_ns, object.landed_ns);
  }
  for (const auto& [version, sum] : sums) {
    log->Add(version, "sent", sum.sent_ns);
    log->Add(version, "payload arrived", sum.payload_arrived_ns);
    log->Add(version, "payload landed", sum.payload_landed_ns);
    log->Add(version, "landed", sum.landed_ns);
    log->Add(version, "linked bytes", static_cast<int64_t>(sum.byte_count));
  }
}

}  // namespace

Status RunNearEnd(const EndToEndRun& run) {
  XORBIT_ASSIGN_OR_RETURN(const auto store, OpenFolderStore(PosixFileOps(), run.near_store));
  return run.link->Send(*store, TurnOf, [&] { return run.board->arrived[kEndMeeting] >= 2; });
}

Status RunFarEnd(const EndToEndRun& run) {
  XORBIT_ASSIGN_OR_RETURN(const auto store, OpenFolderStore(PosixFileOps(), run.far_store));
  std::vector<LinkedObject> objects;
  XORBIT_RETURN_IF_ERROR(run.link->Receive(*store, &objects));
  MarkLog log;
  AddObjects(run, objects, &log);
  return log.Write(run.marks / "link");
}

}  // namespace xorbit
