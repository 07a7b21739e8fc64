// xorbit fold DELTA DELTA... -o DELTA [--checkpoint BASE_OR_TARGET]
#include <fmt/core.h>

#include "cli/command.h"

namespace xorbit {
namespace {

struct FoldOptions {
  std::vector<std::string> chain;
  std::string out;
  std::string checkpoint;
  CodecOptions codec;
};

Result<Answer> RunFold(Session& session, const FoldOptions& options) {
  DeltaOptions delta;
  XORBIT_ASSIGN_OR_RETURN(delta.codec, options.codec.Find());
  delta.encode.zstd_level = options.codec.zstd_level;
  std::optional<Checkpoint> checkpoint;
  if (!options.checkpoint.empty()) {
    XORBIT_ASSIGN_OR_RETURN(checkpoint, OpenSettled(options.checkpoint));
  }
  const std::vector<fs::path> chain(options.chain.begin(), options.chain.end());
  XORBIT_ASSIGN_OR_RETURN(const DeltaSummary summary,
                          FoldDeltas(session.runtime(), chain, options.out, checkpoint ? &*checkpoint : nullptr, delta));
  Answer answer;
  answer.fields = {{"delta", options.out},
                   {"folded", chain.size()},
                   {"changed_elements", summary.manifest.change_count},
                   {"payload_bytes", summary.payload_bytes},
                   {"manifest_bytes", summary.manifest_bytes},
                   {"has_digests", summary.manifest.has_digests},
                   {"base", ToText(summary.manifest.base)},
                   {"target", ToText(summary.manifest.target)},
                   {"timings", TimingsOf(session.timers())}};
  answer.text =
      fmt::format("{}: {} folded into {}, {} changed{}\n", options.out, Counted(chain.size(), "delta"),
                  HumanBytes(static_cast<double>(summary.sent_bytes())), Counted(summary.manifest.change_count, "element"),
                  summary.manifest.has_digests ? "" : "; without tile digests, give --checkpoint to have them");
  return answer;
}

}  // namespace

void AddFoldCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<FoldOptions>();
  CLI::App* command = AddCommand(app, invocation, "fold", "Make one delta of a chain of deltas",
                                 [options](Session& session) { return RunFold(session, *options); });
  command->add_option("DELTA", options->chain, "Delta folders, in order")->required();
  command->add_option("-o,--out", options->out, "Delta folder to write; must not exist")->required();
  command->add_option("--checkpoint", options->checkpoint, "The chain's base or target: lends the values for tile digests");
  AddCodecOptions(command, &options->codec);
}

}  // namespace xorbit
