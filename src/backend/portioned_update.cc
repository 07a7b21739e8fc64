#include "backend/portioned_update.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/parallel.h"

namespace xorbit {
namespace {

using OpenGroup = std::vector<std::unique_ptr<OpenPortion>>;

Result<OpenGroup> Open(const PortionPlan& plan, const std::vector<Portion>& group, const ReadBody& read, int threads,
                       PortionReport* report) {
  const Stage timed(&report->timers, "fetch + undo");
  OpenGroup portions(group.size());
  const int threads_each = std::max(1, threads / static_cast<int>(std::min<size_t>(group.size(), INT32_MAX)));
  XORBIT_RETURN_IF_ERROR(ParallelFor(threads, group.size(), [&](uint64_t i) -> Status {
    XORBIT_ASSIGN_OR_RETURN(portions[i], OpenPortion::Make(plan, group[i], read, threads_each));
    return {};
  }));
  uint64_t staged_bytes = 0;
  for (const auto& portion : portions) {
    report->fetched_bytes += portion->fetched_bytes();
    staged_bytes += portion->most_bytes();
  }
  report->most_staged_bytes = std::max(report->most_staged_bytes, staged_bytes);
  return portions;
}

Status Take(const Backend& backend, const Layout& layout, const OpenGroup& portions, const LiveMemory& live,
            const PrepareOptions& options, PortionReport* report) {
  std::vector<PayloadView> payloads;
  for (const auto& portion : portions) payloads.push_back(portion->view());
  std::unique_ptr<PreparedUpdate> update;
  {
    const Stage timed(&report->timers, "prepare");
    XORBIT_ASSIGN_OR_RETURN(update, backend.Prepare(layout, payloads, live, options));
  }
  report->change += update->report().change;
  report->change_count += update->report().change_count;
  ++report->group_count;
  const Stage timed(&report->timers, "apply");
  return update->Apply();
}

}  // namespace

Status ApplyByPortions(const Backend& backend, const Layout& layout, std::span<const PayloadView> heads, const ReadBody& read,
                       const LiveMemory& live, uint64_t limit_bytes, PrepareOptions options, PortionReport* report) {
  XORBIT_ASSIGN_OR_RETURN(const PortionPlan plan, PortionPlan::Make(layout, heads, limit_bytes));
  std::unique_ptr<KeptMemory> kept;  // from one group to the next
  options.is_portion = true;
  options.masks.kept = &kept;
  for (const std::vector<Portion>& group : plan.groups()) {
    XORBIT_ASSIGN_OR_RETURN(const OpenGroup portions, Open(plan, group, read, options.threads, report));
    XORBIT_RETURN_IF_ERROR(Take(backend, layout, portions, live, options, report));
  }
  return {};
}

}  // namespace xorbit
