// xorbit stats OLD NEW: measure your own updates before you choose anything: density, entropy, gaps, and what every codec would
// send.
#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "cli/command.h"
#include "journey/update_report.h"

namespace xorbit {
namespace {

struct StatsOptions {
  std::string old_path;
  std::string new_path;
  bool all = false;
};

double Per(double amount, uint64_t count) { return count == 0 ? 0 : amount / static_cast<double>(count); }

std::string UnitText(const ChangeStatistics& statistics) {
  std::string text = fmt::format(
      "{}-byte units: {} of {} elements change ({:.4f} %), {:.3f} bytes a change; entropy {:.2f} (position) + {:.2f} (value) "
      "bits\n",
      statistics.unit_bytes(), statistics.change_count(), statistics.element_count(), statistics.density() * 100,
      Per(static_cast<double>(statistics.changed_byte_count()), statistics.change_count()), statistics.PositionEntropy(),
      statistics.ValueEntropy());
  text += "  gaps ";
  for (uint32_t bucket = 0; bucket < kGapBucketCount; ++bucket) {
    const uint64_t count = statistics.gap_buckets()[bucket];
    if (count != 0)
      text += fmt::format(" 2^{}:{:.1f}%", bucket, Per(100.0 * static_cast<double>(count), statistics.change_count()));
  }
  text += "\n  values ";
  for (const auto& [value, count] : statistics.TopValues(8)) {
    text += fmt::format(" {:x}:{:.1f}%", value, Per(100.0 * static_cast<double>(count), statistics.change_count()));
  }
  return text + "\n";
}

std::string TensorText(const Layout& layout, std::vector<TensorChange> tensors, bool all) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorChange& a, const TensorChange& b) {
    return Per(static_cast<double>(a.change_count), a.element_count) >
           Per(static_cast<double>(b.change_count), b.element_count);
  });
  constexpr size_t kShown = 10;
  std::string text = fmt::format("{:>9} {:>12}  tensor\n", "density", "changed");
  for (size_t i = 0; i < tensors.size() && (all || i < kShown); ++i) {
    text +=
        fmt::format("{:>8.4f}% {:>12}  {}\n", 100 * Per(static_cast<double>(tensors[i].change_count), tensors[i].element_count),
                    tensors[i].change_count, Quoted(layout.tensors()[tensors[i].tensor_index].name));
  }
  if (!all && tensors.size() > kShown)
    text += fmt::format("... and {} (--all)\n", Counted(tensors.size() - kShown, "more tensor"));
  return text;
}

std::string CodecText(const UpdateReport& report) {
  std::string text = fmt::format("{:<12} {:>12} {:>10} {:>11}\n", "codec", "payload", "bits/chg", "x entropy");
  const double entropy_bytes = report.entropy_bits / 8;
  text += fmt::format("{:<12} {:>12} {:>10.2f} {:>11}\n", "(entropy)", HumanBytes(entropy_bytes),
                      Per(report.entropy_bits, report.change_count), "");
  for (const CodecSize& size : report.codecs) {
    text += fmt::format("{:<12} {:>12} {:>10.2f} {:>11.3f}\n", FindCodec(size.codec)->name(),
                        HumanBytes(static_cast<double>(size.payload_bytes)),
                        Per(8.0 * static_cast<double>(size.payload_bytes), report.change_count),
                        entropy_bytes == 0 ? 0 : static_cast<double>(size.payload_bytes) / entropy_bytes);
  }
  return text;
}

Json Fields(const Layout& layout, const UpdateReport& report) {
  Json units = Json::array();
  for (const ChangeStatistics& statistics : report.by_unit) {
    units.push_back({{"unit_bytes", statistics.unit_bytes()},
                     {"elements", statistics.element_count()},
                     {"changed_elements", statistics.change_count()},
                     {"changed_bytes", statistics.changed_byte_count()},
                     {"position_entropy_bits", statistics.PositionEntropy()},
                     {"value_entropy_bits", statistics.ValueEntropy()},
                     {"gap_buckets", statistics.gap_buckets()}});
  }
  Json tensors = Json::array();
  for (const TensorChange& tensor : report.tensors) {
    tensors.push_back({{"name", layout.tensors()[tensor.tensor_index].name},
                       {"elements", tensor.element_count},
                       {"changed_elements", tensor.change_count}});
  }
  Json codecs = Json::array();
  for (const CodecSize& size : report.codecs) {
    codecs.push_back({{"codec", FindCodec(size.codec)->name()},
                      {"payload_bytes", size.payload_bytes},
                      {"bits_per_change", Per(8.0 * static_cast<double>(size.payload_bytes), report.change_count)},
                      {"encode_s", size.encode_seconds}});
  }
  return {{"elements", report.element_count},
          {"changed_elements", report.change_count},
          {"entropy_bits", report.entropy_bits},
          {"units", units},
          {"codecs", codecs},
          {"tensors", tensors}};
}

Result<Answer> RunStats(Session& session, const StatsOptions& options) {
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint old_checkpoint, OpenSettled(options.old_path));
  XORBIT_ASSIGN_OR_RETURN(const Checkpoint new_checkpoint, OpenSettled(options.new_path));
  std::vector<CodecId> codecs;
  for (const Codec* codec : AllCodecs()) codecs.push_back(codec->id());
  XORBIT_ASSIGN_OR_RETURN(const UpdateReport report,
                          MeasureUpdate(session.runtime(), old_checkpoint, new_checkpoint, codecs, EncodeOptions{}));
  const Layout& layout = old_checkpoint.layout();
  Answer answer;
  answer.fields = Fields(layout, report);
  for (const ChangeStatistics& statistics : report.by_unit) answer.text += UnitText(statistics);
  answer.text += "\n" + CodecText(report) + "\n" + TensorText(layout, report.tensors, options.all);
  return answer;
}

}  // namespace

void AddStatsCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<StatsOptions>();
  CLI::App* command =
      AddCommand(app, invocation, "stats", "Measure an update: density, entropy, and what each codec would send",
                 [options](Session& session) { return RunStats(session, *options); });
  command->add_option("OLD", options->old_path, "Checkpoint before the update")->required();
  command->add_option("NEW", options->new_path, "Checkpoint after it")->required();
  command->add_flag("--all", options->all, "List every tensor, not only the ten densest");
}

}  // namespace xorbit
