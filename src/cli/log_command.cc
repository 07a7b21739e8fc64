// xorbit log STORE: the versions of a stream, newest first, and the deltas that lead to each. Lost records are named, and what
// is there is listed all the same.
#include <fmt/core.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/store_options.h"
#include "store/anchor.h"
#include "store/store_keys.h"
#include "store/stream.h"

namespace xorbit {
namespace {

struct LogOptions {
  StoreOptions store;
  uint64_t count = 20;
};

// The first version of which nothing tells that it was decided, though records may be lost.
Result<uint64_t> EndOfTraces(Stream& stream) {
  const std::string& id = stream.info().stream_id;
  const Result<uint64_t> next = stream.NextFree();
  if (!next.ok() && next.status().code() != Code::kCorrupt) return next.status();
  uint64_t end = next.ok() ? *next : 0;
  XORBIT_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, stream.store().List(id + "/v"));
  for (const ObjectInfo& object : objects) {
    const auto decided = DecidedBefore(id, object.key);
    if (decided) end = std::max(end, *decided + 1);
  }
  return end;
}

struct Listed {
  Json versions = Json::array();
  Json lost = Json::array();
  std::string text;

  void AddLost(const Status& why) {
    lost.push_back(why.message());
    text += "lost: " + why.message() + "\n";
  }
};

void AddVersion(const VersionRecord& record, const std::vector<Edge>& edges, bool is_anchor, Listed* listed) {
  Json deltas = Json::array();
  std::string from;
  uint64_t step_bytes = 0;
  for (const Edge& edge : edges) {
    if (edge.to != record.version) continue;
    deltas.push_back({{"from", edge.from}, {"bytes", edge.byte_count}, {"publication", edge.publication_id}});
    from += (from.empty() ? "" : " ") + std::to_string(edge.from);
    if (edge.publication_id == record.publication_id) step_bytes = edge.byte_count;
  }
  listed->versions.push_back({{"version", record.version},
                              {"decision", record.committed() ? "committed" : "aborted"},
                              {"parent", record.parent ? Json(*record.parent) : Json(nullptr)},
                              {"state", record.committed() ? Json(ToText(record.target)) : Json(nullptr)},
                              {"publication", record.publication_id},
                              {"anchor", is_anchor},
                              {"deltas", std::move(deltas)}});
  listed->text += fmt::format(
      "{:>8}  {:>6}  {:>10}  {:<34}  {}{}\n", record.version, record.parent ? std::to_string(*record.parent) : "-",
      step_bytes == 0 ? "-" : HumanBytes(static_cast<double>(step_bytes)),
      record.committed() ? ToText(record.target) : "aborted", from, is_anchor ? (from.empty() ? "whole" : ", whole") : "");
}

Result<Answer> RunLog(Session& session, const LogOptions& options) {
  XORBIT_ASSIGN_OR_RETURN(const auto store, OpenStore(session.runtime(), options.store, /*may_create=*/false));
  XORBIT_ASSIGN_OR_RETURN(Stream stream, Stream::Open(*store, options.store.stream_id));
  XORBIT_ASSIGN_OR_RETURN(const uint64_t end, EndOfTraces(stream));
  const uint64_t lowest = end > options.count ? end - options.count : 0;
  Result<std::vector<Edge>> edges = stream.EdgesInto(lowest, end);
  if (edges.status().code() == Code::kCorrupt) edges = std::vector<Edge>();  // a lost record, which is named below
  XORBIT_RETURN_IF_ERROR(edges.status());
  XORBIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> anchors, AnchorVersions(stream));
  Listed listed;
  const Status is_free = stream.CheckFree(end);
  if (is_free.code() == Code::kCorrupt) listed.AddLost(is_free);
  for (uint64_t version = end; version-- > lowest;) {
    const Result<VersionRecord> record = stream.DecidedRecord(version);
    if (record.status().code() == Code::kCorrupt) {
      listed.AddLost(record.status());
      continue;
    }
    XORBIT_RETURN_IF_ERROR(record.status());
    AddVersion(*record, *edges, std::ranges::find(anchors, version) != anchors.end(), &listed);
  }
  Answer answer;
  answer.exit_code = listed.lost.empty() ? 0 : 1;
  answer.fields = {{"stream", stream.info().stream_id},
                   {"base_fingerprint", ToHex(stream.info().base_fingerprint)},
                   {"versions", std::move(listed.versions)},
                   {"lost", std::move(listed.lost)}};
  answer.text =
      fmt::format("stream {}, base {}\n{:>8}  {:>6}  {:>10}  {:<34}  deltas from\n{}", stream.info().stream_id,
                  ToHex(stream.info().base_fingerprint).substr(0, 16), "version", "parent", "bytes", "state", listed.text);
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
