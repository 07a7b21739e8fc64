// xorbit pull STORE CHECKPOINT [--version N]
#include <fmt/core.h>

#include "cli/command.h"
#include "cli/store_options.h"
#include "journey/store_journey.h"

namespace xorbit {
namespace {

struct PullOptions {
  StoreOptions store;
  std::string checkpoint;
  std::optional<uint64_t> version;
};

Result<Answer> RunPull(Session& session, const PullOptions& options) {
  XORBIT_ASSIGN_OR_RETURN(const auto store, OpenStore(session.runtime(), options.store, /*may_create=*/false));
  XORBIT_ASSIGN_OR_RETURN(const PulledCheckpoint pulled, PullCheckpoint(session.runtime(), *store, options.store.stream_id,
                                                                        options.checkpoint, options.version));
  Answer answer;
  answer.fields = {{"stream", pulled.stream_id},
                   {"from", pulled.from ? Json(*pulled.from) : Json(nullptr)},
                   {"version", pulled.version},
                   {"state", ToText(pulled.state)},
                   {"deltas", pulled.object_count},
                   {"fetched_bytes", pulled.fetched_bytes},
                   {"changed_elements", pulled.change_count},
                   {"recovered", pulled.recovered},
                   {"timings", TimingsOf(session.timers())}};
  const std::string from = pulled.from ? fmt::format("version {}", *pulled.from) : "a whole version";
  answer.text =
      pulled.object_count == 0 && pulled.from
          ? fmt::format("{}: at version {} of {} already\n", options.checkpoint, pulled.version, pulled.stream_id)
          : fmt::format("{}: version {} of {}, from {} by {}, {} fetched, {} changed\n", options.checkpoint, pulled.version,
                        pulled.stream_id, from, Counted(pulled.object_count, "delta"),
                        HumanBytes(static_cast<double>(pulled.fetched_bytes)), Counted(pulled.change_count, "element"));
  return answer;
}

}  // namespace

void AddPullCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<PullOptions>();
  CLI::App* command = AddCommand(app, invocation, "pull", "Bring a checkpoint to a version in a store, forward or back",
                                 [options](Session& session) { return RunPull(session, *options); });
  AddStoreOptions(command, &options->store);
  command->add_option("CHECKPOINT", options->checkpoint, "Changed in place, crash-safely; made if it is not there")->required();
  command->add_option("--version", options->version, "Which version (the newest)")->check(CLI::Range(uint64_t{0}, kMaxVersion));
}

}  // namespace xorbit
