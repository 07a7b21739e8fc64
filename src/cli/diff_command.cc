// xorbit diff OLD NEW -o DELTA
#include <fmt/core.h>

#include "cli/command.h"

namespace xorbit {
namespace {

struct DiffOptions {
  std::string old_path;
  std::string new_path;
  std::string out;
  std::string format = "xorbit";
  std::string split = "whole";
  uint32_t owner_count = 1;
  std::vector<std::string> groups;  // NAME=GLOB
  std::vector<std::string> frozen;
  CodecOptions codec;
};

Result<LayoutRules> RulesOf(const DiffOptions& options) {
  LayoutRules rules;
  rules.frozen = options.frozen;
  for (const std::string& group : options.groups) {
    const size_t equals = group.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == group.size()) {
      return UsageError("--group takes NAME=PATTERN, not '" + group + "'");
    }
    rules.groups.push_back({group.substr(0, equals), group.substr(equals + 1)});
  }
  return rules;
}

Answer Describe(const DiffOptions& options, const DeltaSummary& summary, const StageTimers& timers) {
  const Manifest& manifest = summary.manifest;
  const auto total = static_cast<double>(summary.sent_bytes());
  const double bits = BitsPerChange(total, manifest.change_count);
  Answer answer;
  answer.fields = {{"delta", options.out},
                   {"codec", FindCodec(manifest.codec)->name()},
                   {"owners", manifest.owners.size()},
                   {"model_bytes", manifest.total_bytes},
                   {"changed_elements", manifest.change_count},
                   {"payload_bytes", summary.payload_bytes},
                   {"manifest_bytes", summary.manifest_bytes},
                   {"bits_per_change", bits},
                   {"base", ToText(manifest.base)},
                   {"target", ToText(manifest.target)},
                   {"timings", TimingsOf(timers)}};
  answer.text = fmt::format("{}: {} for {} of weights, {} changed, {:.2f} bits a change, {}\n", options.out, HumanBytes(total),
                            HumanBytes(static_cast<double>(manifest.total_bytes)), Counted(manifest.change_count, "element"),
                            bits, HumanSeconds(timers.TotalSeconds()));
  return answer;
}

// The options that a weight_v folder has no place for are refused rather than ignored.
Status CheckMilesOptions(const DiffOptions& options) {
  if (!options.codec.codec.empty() || options.codec.zstd_level != CodecOptions{}.zstd_level) {
    return UsageError("--format miles has its own codec; leave out --codec and --zstd-level");
  }
  if (!options.groups.empty() || options.split != DiffOptions{}.split) {
    return UsageError("--format miles has neither presence groups nor affine owners; leave out --group and --split");
  }
  return {};
}

Result<Answer> DiffToMiles(Session& session, const DiffOptions& options, const Checkpoint& old_checkpoint,
                           const Checkpoint& new_checkpoint, const LayoutRules& rules) {
  XORBIT_RETURN_IF_ERROR(CheckMilesOptions(options));
  MilesWriteOptions write;
  write.owner_count = options.owner_count;
  write.version = MilesVersionNamed(fs::path(options.out).filename().string()).value_or(write.version);
  if (write.version == 0) return UsageError("version 0 has nothing before it: name the folder weight_v000001 or later");
  write.base_version = write.version - 1;
  XORBIT_ASSIGN_OR_RETURN(const MilesWriteReport report,
                          MakeMilesDelta(session.runtime(), old_checkpoint, new_checkpoint, options.out, rules, write));
  Answer answer;
  answer.fields = {{"delta", options.out},
                   {"format", "miles"},
                   {"payload_bytes", report.total_file_bytes},
                   {"changed_tensors", report.changed_tensor_count}};
  answer.text =
      fmt::format("{}: {} in the Miles format, {} changed\n", options.out,
                  HumanBytes(static_cast<double>(report.total_file_bytes)), Counted(report.changed_tensor_count, "tensor"));
  return answer;
}

Result<Answer> RunDiff(Session& session, const DiffOptions& options) {
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint old_checkpoint, OpenSettled(options.old_path));
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint new_checkpoint, OpenSettled(options.new_path));
  XORBIT_ASSIGN_OR_RETURN(const LayoutRules rules, RulesOf(options));
  if (options.format == "miles") return DiffToMiles(session, options, old_checkpoint, new_checkpoint, rules);
  DeltaOptions delta;
  delta.rules = rules;
  XORBIT_ASSIGN_OR_RETURN(delta.codec, options.codec.Find());
  XORBIT_ASSIGN_OR_RETURN(delta.split, ParseSplit(options.split));
  delta.owner_count = options.owner_count;
  delta.encode.zstd_level = options.codec.zstd_level;
  XORBIT_ASSIGN_OR_RETURN(const DeltaSummary summary,
                          MakeDelta(session.runtime(), old_checkpoint, new_checkpoint, options.out, delta));
  return Describe(options, summary, session.timers());
}

}  // namespace

void AddDiffCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command = AddCommand(app, invocation, "diff", "Write the delta from one checkpoint to another",
                                 [options](Session& session) { return RunDiff(session, *options); });
  command->add_option("OLD", options->old_path, "Checkpoint to start from: a .safetensors file or a folder of them")
      ->required();
  command->add_option("NEW", options->new_path, "Checkpoint to arrive at, of the same layout")->required();
  command->add_option("-o,--out", options->out, "Delta folder to write; must not exist")->required();
  command->add_option("--format", options->format, "xorbit (default), or miles for a weight_vNNNNNN folder")
      ->check(CLI::IsMember({"xorbit", "miles"}));
  command->add_option("--owners", options->owner_count, "Split the work, and the payload, over this many owners")
      ->check(CLI::Range(1U, 4096U));
  command->add_option("--split", options->split, "How owners split: whole tensors, range (FSDP) or column (TP)")
      ->check(CLI::IsMember({"whole", "range", "column"}));
  command->add_option("--group", options->groups, "NAME=PATTERN: tensors that a receiver has or lacks together");
  command->add_option("--frozen", options->frozen, "PATTERN: tensors that no update may touch");
  AddCodecOptions(command, &options->codec);
}

}  // namespace xorbit
