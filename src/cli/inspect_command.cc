// xorbit inspect DELTA: what a delta holds, in all and per tensor. It decodes everything, so it also says whether the delta can
// be decoded at all.
#include <fmt/core.h>

#include "base/text.h"
#include "cli/command.h"
#include "journey/delta_report.h"

namespace xorbit {
namespace {

struct InspectOptions {
  std::string delta;
  bool all = false;
};

Json Fields(const Delta& delta, const std::vector<TensorReport>& tensors) {
  const Manifest& manifest = delta.manifest;
  Json owners = Json::array();
  for (const ManifestOwner& owner : manifest.owners) {
    owners.push_back({{"file", owner.file},
                      {"bytes", owner.byte_count},
                      {"head_bytes", owner.head_byte_count},
                      {"changed_elements", owner.change_count},
                      {"sha256", ToHex(owner.sha256)}});
  }
  Json list = Json::array();
  for (const TensorReport& tensor : tensors) {
    list.push_back({{"name", delta.layout.tensors()[tensor.tensor_index].name},
                    {"elements", tensor.element_count},
                    {"changed_elements", tensor.change_count},
                    {"body_bytes", tensor.body_bytes}});
  }
  return {{"codec", FindCodec(manifest.codec)->name()},
          {"layout", ToHex(manifest.layout_digest)},
          {"base", ToText(manifest.base)},
          {"target", ToText(manifest.target)},
          {"has_digests", manifest.has_digests},
          {"model_bytes", manifest.total_bytes},
          {"changed_elements", manifest.change_count},
          {"fetched_bytes", delta.total_file_bytes},
          {"bits_per_change", BitsPerChange(static_cast<double>(delta.total_file_bytes), manifest.change_count)},
          {"owners", owners},
          {"tensors", list}};
}

std::string Text(const Delta& delta, std::vector<TensorReport> tensors, bool all) {
  const Manifest& manifest = delta.manifest;
  std::string text = fmt::format(
      "codec     {}\nlayout    {}\nbase      {}\ntarget    {}\nowners    {}\nfetched   {}, {:.2f} bits a change\nchanged   {} "
      "elements of {} of weights\ndigests   {}\n\n",
      FindCodec(manifest.codec)->name(), ToHex(manifest.layout_digest), ToText(manifest.base), ToText(manifest.target),
      manifest.owners.size(), HumanBytes(static_cast<double>(delta.total_file_bytes)),
      BitsPerChange(static_cast<double>(delta.total_file_bytes), manifest.change_count), manifest.change_count,
      HumanBytes(static_cast<double>(manifest.total_bytes)), manifest.has_digests ? "in every tile" : "none");
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorReport& a, const TensorReport& b) { return a.change_count > b.change_count; });
  constexpr size_t kShown = 20;
  text += fmt::format("{:>12} {:>9} {:>7}  {}\n", "changed", "density", "bits", "tensor");
  for (size_t i = 0; i < tensors.size() && (all || i < kShown); ++i) {
    const TensorReport& tensor = tensors[i];
    const double density =
        tensor.element_count == 0 ? 0 : static_cast<double>(tensor.change_count) / static_cast<double>(tensor.element_count);
    text += fmt::format("{:>12} {:>8.4f}% {:>7.2f}  {}\n", tensor.change_count, density * 100,
                        BitsPerChange(tensor.body_bytes, tensor.change_count),
                        Quoted(delta.layout.tensors()[tensor.tensor_index].name));
  }
  if (!all && tensors.size() > kShown)
    text += fmt::format("... and {} (--all)\n", Counted(tensors.size() - kShown, "more tensor"));
  return text;
}

Result<Answer> RunInspect(Session& session, const InspectOptions& options) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<Delta> chain, OpenChain(session.runtime(), {options.delta}));
  const Delta& delta = chain.front();
  XORBIT_ASSIGN_OR_RETURN(const std::vector<TensorReport> tensors, ReportTensors(session.runtime(), delta));
  return Answer{Fields(delta, tensors), Text(delta, tensors, options.all)};
}

}  // namespace

void AddInspectCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = AddCommand(app, invocation, "inspect", "Show what a delta holds, per tensor",
                                 [options](Session& session) { return RunInspect(session, *options); });
  command->add_option("DELTA", options->delta, "Delta folder")->required();
  command->add_flag("--all", options->all, "List every tensor, not only the 20 with most changes");
}

}  // namespace xorbit
