// xorbit verify CHECKPOINT DELTA
#include <fmt/core.h>

#include "cli/command.h"

namespace xorbit {
namespace {

struct VerifyOptions {
  std::string checkpoint;
  std::vector<std::string> chain;
};

// "base" and "target" for one delta; in a chain, the states in between have numbers.
std::string NameOfState(const StateReport& report, size_t chain_size) {
  switch (report.position) {
    case ChainPosition::kInterrupted:
      return "interrupted";
    case ChainPosition::kNotOnChain:
      return "neither";
    case ChainPosition::kOnChain:
      break;
  }
  if (report.chain_index == 0) return "base";
  if (report.chain_index == chain_size) return "target";
  return fmt::format("after delta {} of {}", report.chain_index, chain_size);
}

Result<Answer> RunVerify(Session& session, const VerifyOptions& options) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Delta> chain,
                          OpenChain(session.runtime(), {options.chain.begin(), options.chain.end()}));
  XORBIT_ASSIGN_OR_RETURN(const StateReport report, IdentifyState(session.runtime(), options.checkpoint, chain));
  Answer answer;
  const std::string state = NameOfState(report, chain.size());
  answer.fields = {{"state", state}, {"digest", ToText(report.digest)}, {"timings", TimingsOf(session.timers())}};
  answer.text = state + "\n";
  answer.exit_code = report.position == ChainPosition::kOnChain ? 0 : 1;
  return answer;
}

}  // namespace

void AddVerifyCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command =
      AddCommand(app, invocation, "verify", "Say whether a checkpoint is a delta's base or target (exit 0) or not",
                 [options](Session& session) { return RunVerify(session, *options); });
  command->add_option("CHECKPOINT", options->checkpoint, "A .safetensors file or a folder of them")->required();
  command->add_option("DELTA", options->chain, "Delta folder, or a chain of them in order")->required();
}

}  // namespace xorbit
