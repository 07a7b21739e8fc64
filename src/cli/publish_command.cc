// xorbit publish STORE CHECKPOINT [--base CHECKPOINT]
#include <fmt/core.h>

#include "cli/command.h"
#include "cli/store_options.h"
#include "journey/store_journey.h"

namespace xorbit {
namespace {

struct PublishCommandOptions {
  StoreOptions store;
  std::string checkpoint;
  std::string base;
  bool anchor = false;
  uint32_t owner_count = 1;
  std::string split = "whole";
  std::vector<std::string> frozen;
  CodecOptions codec;
};

Result<Answer> RunPublish(Session& session, const PublishCommandOptions& options) {
  PublishRequest request;
  request.stream_id = options.store.stream_id;
  request.checkpoint = options.checkpoint;
  if (!options.base.empty()) request.base = options.base;
  request.with_anchor = options.anchor;
  request.delta.owner_count = options.owner_count;
  request.delta.rules.frozen = options.frozen;
  request.delta.encode.zstd_level = options.codec.zstd_level;
  XORBIT_ASSIGN_OR_RETURN(request.delta.codec, options.codec.Find());
  XORBIT_ASSIGN_OR_RETURN(request.delta.split, ParseSplit(options.split));
  XORBIT_ASSIGN_OR_RETURN(const auto store, OpenStore(session.runtime(), options.store, /*may_create=*/true));
  XORBIT_ASSIGN_OR_RETURN(const PublishedCheckpoint published, PublishCheckpoint(session.runtime(), *store, request));
  Answer answer;
  answer.fields = {{"stream", published.stream_id},
                   {"created", published.created},
                   {"version", published.version},
                   {"state", ToText(published.state)},
                   {"payload_bytes", published.payload_bytes},
                   {"manifest_bytes", published.manifest_bytes},
                   {"folds", published.fold_count},
                   {"folds_error", published.folds.ok() ? Json(nullptr) : Json(published.folds.message())},
                   {"changed_elements", published.manifest ? published.manifest->change_count : 0},
                   {"timings", TimingsOf(session.timers())}};
  if (published.manifest) {
    answer.text = fmt::format("{} version {}: {} changed, {}{}\n", published.stream_id, published.version,
                              Counted(published.manifest->change_count, "element"),
                              HumanBytes(static_cast<double>(published.sent_bytes())),
                              published.fold_count == 0 ? "" : ", " + Counted(published.fold_count, "fold"));
    if (!published.folds.ok()) {
      answer.text += fmt::format("published, but its folds could not be written ({}): receivers take more deltas to it\n",
                                 published.folds.message());
    }
  } else {
    answer.text = fmt::format("{} version 0: a new stream, stored whole\n", published.stream_id);
  }
  return answer;
}

}  // namespace

void AddPublishCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<PublishCommandOptions>();
  CLI::App* command = AddCommand(app, invocation, "publish", "Put a checkpoint into a store as a stream's next version",
                                 [options](Session& session) { return RunPublish(session, *options); });
  AddStoreOptions(command, &options->store);
  command->add_option("CHECKPOINT", options->checkpoint, "A .safetensors file or a folder of them")->required();
  command->add_option("--base", options->base,
                      "A checkpoint that is a version of the stream, to compare with; of a new stream its version 0 "
                      "(otherwise the newest whole version in the store)");
  command->add_flag("--anchor", options->anchor, "Store this version whole as well");
  command->add_option("--owners", options->owner_count, "Number of payloads")->check(CLI::Range(1U, 4096U));
  command->add_option("--split", options->split, "How owners share the tensors: whole, range or column");
  command->add_option("--frozen", options->frozen, "Glob of tensors that no version may change (new streams)");
  AddCodecOptions(command, &options->codec);
}

}  // namespace xorbit
