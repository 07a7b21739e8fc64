// xorbit gc STORE: gives up what nobody should need, and removes what was given up long enough ago. Safe beside everybody else.
#include <fmt/core.h>

#include "cli/command.h"
#include "cli/store_options.h"
#include "store/gc.h"

namespace xorbit {
namespace {

struct CollectOptions {
  StoreOptions store;
  RetentionPolicy policy;
  std::vector<uint64_t> marks = {0};
  uint64_t grace_s = 3600;
};

Result<Answer> RunCollect(Session& session, const CollectOptions& options) {
  XORBIT_ASSIGN_OR_RETURN(const auto store, OpenStore(session.runtime(), options.store, /*may_create=*/false));
  XORBIT_ASSIGN_OR_RETURN(Stream stream, Stream::Open(*store, options.store.stream_id));
  GcOptions gc;
  gc.policy = options.policy;
  gc.marks = options.marks;
  gc.grace_ns = static_cast<int64_t>(options.grace_s) * 1'000'000'000;
  XORBIT_ASSIGN_OR_RETURN(const GcReport report, CollectGarbage(stream, gc));
  Answer answer;
  answer.fields = {{"stream", stream.info().stream_id},
                   {"given_up", report.listed_count},
                   {"removed_objects", report.removed_object_count},
                   {"removed_bytes", report.removed_bytes}};
  answer.text =
      fmt::format("{}: deltas and anchors given up: {}; {} removed ({})\n", stream.info().stream_id, report.listed_count,
                  Counted(report.removed_object_count, "object"), HumanBytes(static_cast<double>(report.removed_bytes)));
  return answer;
}

}  // namespace

void AddGcCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<CollectOptions>();
  CLI::App* command = AddCommand(app, invocation, "gc", "Remove what a stream need not keep",
                                 [options](Session& session) { return RunCollect(session, *options); });
  AddStoreOptions(command, &options->store);
  command->add_option("--keep", options->policy.version_count, "Newest versions between which no delta is dropped (256)")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40));
  command->add_option("--anchors", options->policy.anchor_count, "Newest whole versions to keep (1)")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 40));
  command->add_option("--mark", options->marks, "Versions to which a way stays (0)")
      ->check(CLI::Range(uint64_t{0}, kMaxVersion));
  command->add_option("--grace", options->grace_s, "Seconds between giving up and removing, by the store's clock (3600)")
      ->check(CLI::Range(uint64_t{0}, uint64_t{100'000'000}));
}

}  // namespace xorbit
