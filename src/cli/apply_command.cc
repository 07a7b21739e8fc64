// xorbit apply CHECKPOINT DELTA... (-o OUT | --in-place [--undo])
#include <fmt/core.h>

#include "cli/command.h"

namespace xorbit {
namespace {

struct ApplyOptions {
  std::string checkpoint;
  std::vector<std::string> chain;
  std::string out;
  bool in_place = false;
  bool undo = false;
};

Answer Describe(const ApplyOptions& options, const ApplySummary& summary, const StageTimers& timers) {
  const std::string& result = options.in_place ? options.checkpoint : options.out;
  Answer answer;
  answer.fields = {{"checkpoint", result},           {"changed_elements", summary.change_count},
                   {"deltas", summary.delta_count},  {"already_there", summary.already_there},
                   {"recovered", summary.recovered}, {"digest", summary.digest ? Json(ToText(*summary.digest)) : Json()},
                   {"timings", TimingsOf(timers)}};
  if (summary.recovered) answer.text += fmt::format("{}: finished an interrupted apply first\n", result);
  if (summary.already_there) {
    answer.text += options.in_place ? fmt::format("{}: already there, nothing to do\n", result)
                                    : fmt::format("{}: a plain copy, for {} was already there\n", result, options.checkpoint);
  } else {
    answer.text += fmt::format("{}: {} changed, state {}, {}\n", result, Counted(summary.change_count, "element"),
                               summary.digest ? ToText(*summary.digest) : "unknown", HumanSeconds(timers.TotalSeconds()));
  }
  return answer;
}

// --undo without deltas: takes an interrupted apply back, if there is one.
Result<Answer> RunRollBack(Session& session, const ApplyOptions& options) {
  XORBIT_ASSIGN_OR_RETURN(const bool rolled_back, RollBack(session.runtime(), options.checkpoint));
  Answer answer;
  answer.fields = {{"checkpoint", options.checkpoint}, {"rolled_back", rolled_back}};
  answer.text =
      options.checkpoint + (rolled_back ? ": interrupted apply rolled back\n" : ": no interrupted apply to roll back\n");
  return answer;
}

Result<Answer> RunApply(Session& session, const ApplyOptions& options) {
  if (options.undo && options.in_place && options.chain.empty()) return RunRollBack(session, options);
  if (options.undo && options.chain.empty()) {
    return UsageError("--undo without deltas takes an interrupted apply back, and needs --in-place");
  }
  if (options.chain.empty()) return UsageError("give at least one DELTA to apply");
  if (options.in_place == !options.out.empty()) return UsageError("give either -o OUT or --in-place");
  const std::vector<fs::path> chain(options.chain.begin(), options.chain.end());
  const Direction direction = options.undo ? Direction::kInverse : Direction::kForward;
  const auto apply = [&]() -> Result<ApplySummary> {
    if (options.in_place) return ApplyInPlace(session.runtime(), options.checkpoint, chain, direction);
    return ApplyToCopy(session.runtime(), options.checkpoint, chain, options.out, direction);
  };
  XORBIT_ASSIGN_OR_RETURN(const ApplySummary summary, apply());
  return Describe(options, summary, session.timers());
}

}  // namespace

void AddApplyCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<ApplyOptions>();
  CLI::App* command = AddCommand(app, invocation, "apply", "Bring a checkpoint to a delta's target, in place or as a copy",
                                 [options](Session& session) { return RunApply(session, *options); });
  command->add_option("CHECKPOINT", options->checkpoint, "A .safetensors file or a folder of them")->required();
  command->add_option("DELTA", options->chain, "Delta folders (or weight_v folders), in order");
  command->add_option("-o,--out", options->out, "Write the result here; must not exist");
  command->add_flag("--in-place", options->in_place, "Change the checkpoint itself, crash-safely");
  command->add_flag("--undo", options->undo, "Take the given deltas back; without deltas, an interrupted apply");
}

}  // namespace xorbit
