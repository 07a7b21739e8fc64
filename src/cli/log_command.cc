// xorbit log STORE: the versions of a stream, newest first, and the deltas that lead to each.
#include <fmt/core.h>

#include "cli/command.h"
#include "cli/store_options.h"
#include "store/anchor.h"
#include "store/stream.h"

namespace xorbit {
namespace {

struct LogOptions {
  StoreOptions store;
  uint64_t count = 20;
};

Result<Answer> RunLog(Session& session, const LogOptions& options) {
  XORBIT_ASSIGN_OR_RETURN(const auto store, OpenStore(session.runtime(), options.store, /*may_create=*/false));
  XORBIT_ASSIGN_OR_RETURN(Stream stream, Stream::Open(*store, options.store.stream_id));
  XORBIT_ASSIGN_OR_RETURN(const uint64_t next, stream.NextFree());
  const uint64_t lowest = next > options.count ? next - options.count : 0;
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Edge> edges, stream.EdgesInto(lowest, next));
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> anchors, AnchorVersions(stream));
  Answer answer;
  Json versions = Json::array();
  answer.text = fmt::format("stream {}, base {}\n{:>8}  {:>6}  {:>10}  {:<34}  deltas from\n", stream.info().stream_id,
                            ToHex(stream.info().base_fingerprint).substr(0, 16), "version", "parent", "bytes", "state");
  for (uint64_t version = next; version-- > lowest;) {
    XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, stream.DecidedRecord(version));
    Json deltas = Json::array();
    std::string from;
    uint64_t step_bytes = 0;
    for (const Edge& edge : edges) {
      if (edge.to != version) continue;
      deltas.push_back({{"from", edge.from}, {"bytes", edge.byte_count}, {"publication", edge.publication_id}});
      from += (from.empty() ? "" : " ") + std::to_string(edge.from);
      if (edge.publication_id == record.publication_id) step_bytes = edge.byte_count;
    }
    const bool is_anchor = std::find(anchors.begin(), anchors.end(), version) != anchors.end();
    versions.push_back({{"version", version},
                        {"decision", record.committed() ? "committed" : "aborted"},
                        {"parent", record.parent ? Json(*record.parent) : Json(nullptr)},
                        {"state", record.committed() ? Json(ToText(record.target)) : Json(nullptr)},
                        {"publication", record.publication_id},
                        {"anchor", is_anchor},
                        {"deltas", std::move(deltas)}});
    answer.text += fmt::format(
        "{:>8}  {:>6}  {:>10}  {:<34}  {}{}\n", version, record.parent ? std::to_string(*record.parent) : "-",
        step_bytes == 0 ? "-" : HumanBytes(static_cast<double>(step_bytes)),
        record.committed() ? ToText(record.target) : "aborted", from, is_anchor ? (from.empty() ? "whole" : ", whole") : "");
  }
  answer.fields = {{"stream", stream.info().stream_id},
                   {"base_fingerprint", ToHex(stream.info().base_fingerprint)},
                   {"versions", std::move(versions)}};
  return answer;
}

}  // namespace

void AddLogCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<LogOptions>();
  CLI::App* command = AddCommand(app, invocation, "log", "List a stream's versions, newest first",
                                 [options](Session& session) { return RunLog(session, *options); });
  AddStoreOptions(command, &options->store);
  command->add_option("-n,--count", options->count, "How many (20)")->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40));
}

}  // namespace xorbit
