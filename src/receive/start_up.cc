#include "receive/start_up.h"

#include <algorithm>
#include <string>
#include <vector>

#include "backend/portioned_update.h"
#include "store/fetch.h"

namespace xorbit {
namespace {

bool HasAllGroups(const Layout& layout, const LiveMap& map) {
  for (uint32_t group = 0; group < layout.groups().size(); ++group) {
    if (map.is_absent(group)) return false;
  }
  return true;
}

// One delta, in one direction.
Status Take(Stream& stream, const Backend& backend, const LiveMemory& live, const Hop& hop, const StartUpOptions& options,
            StartUpReport* report) {
  XORBIT_ASSIGN_OR_RETURN(const Delta heads, FetchHeads(stream, hop.edge, {options.threads, options.staging_limit_bytes}));
  uint64_t head_bytes = 0;
  for (const PayloadBytes& head : heads.files) head_bytes += head.bytes().size();
  const std::vector<ManifestOwner>& owners = heads.manifest.owners;
  const auto read = [&](uint32_t payload_index, uint64_t body_offset, bool is_again, MutableBytes bytes) {
    const ManifestOwner& owner = owners[payload_index];
    const std::string key = PayloadKey(stream.info().stream_id, PlaceOf(hop.edge), owner);
    if (is_again) (void)stream.store().DropCopy(key);
    return stream.store().ReadInto(key, owner.head_byte_count + body_offset, bytes);
  };
  PrepareOptions prepare;
  prepare.threads = options.threads;
  prepare.direction = hop.backward ? Direction::kInverse : Direction::kForward;
  prepare.partial = options.partial;
  prepare.localise_budget_bytes = 0;  // decoded when it is applied: nothing waits beside the payloads
  prepare.throttle = ServingThrottle::None();
  prepare.masks = options.masks;
  PortionReport portions;
  XORBIT_RETURN_IF_ERROR(ApplyByPortions(backend, stream.layout(), heads.payloads, read, live,
                                         options.staging_limit_bytes - head_bytes, prepare, &portions)
                             .WithContext(heads.folder.string()));
  ++report->object_count;
  report->payload_bytes += hop.edge.byte_count;
  report->fetched_bytes += heads.total_file_bytes + portions.fetched_bytes;
  report->most_staged_bytes = std::max(report->most_staged_bytes, head_bytes + portions.most_staged_bytes);
  report->group_count += portions.group_count;
  report->change_count += portions.change_count;
  for (const auto& entry : portions.timers.entries()) report->timers.Add(entry.name, entry.seconds);
  const StateDigest stated = heads.manifest.target - heads.manifest.base;
  if (options.partial || !HasAllGroups(stream.layout(), *live.map)) return {};
  if (portions.change == (hop.backward ? StateDigest{} - stated : stated)) return {};
  return RefusedError(heads.folder.string() +
                      ": what was applied is not the difference between its versions; load the checkpoint again");
}

}  // namespace

Result<StartUpReport> StartUp(Stream& stream, const Backend& backend, const LiveMemory& live, uint64_t from, uint64_t to,
                              const StartUpOptions& options) {
  StartUpReport report;
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Hop> route, stream.Route(from, to));
  for (const Hop& hop : route) XORBIT_RETURN_IF_ERROR(Take(stream, backend, live, hop, options, &report));
  return report;
}

}  // namespace xorbit
