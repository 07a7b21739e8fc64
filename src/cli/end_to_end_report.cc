#include "cli/end_to_end_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/stopwatch.h"

namespace xorbit {
namespace {

constexpr double kReferenceModelBytes = 445e9;

// A phase of one version. Times are of the steady clock.
struct Span {
  std::string_view actor;
  std::string_view name;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

// What lies between two marks.
struct MarkedPhase {
  std::string_view actor;
  std::string_view name;
  std::string_view begin;
  std::string_view end;
};
constexpr std::array kBeforeSampler = {
    MarkedPhase{"trainer", "diff + encode", "step done", "encoded"},
    MarkedPhase{"trainer", "hash + store", "encoded", "stored"},
    MarkedPhase{"trainer", "seal + decide", "stored", "decided"},
    MarkedPhase{"link", "payload on the wire", "sent", "payload arrived"},
    MarkedPhase{"link", "everything, to its landing", "sent", "landed"},
    MarkedPhase{"sampler", "see the version", "landed", "noticed"},
};
constexpr std::array<std::string_view, 3> kPrepareStages = {"route", "fetch + fold", "prepare"};

Result<int64_t> MarkIn(const Marks& marks, std::string_view name) {
  const auto found = marks.find(name);
  if (found == marks.end()) return CorruptError("no process of the benchmark has noted '" + std::string(name) + "'");
  return found->second;
}

Result<std::vector<Span>> SpansOf(const Marks& marks) {
  std::vector<Span> spans;
  const auto add = [&](const MarkedPhase& phase) -> Status {
    XORBIT_ASSIGN_OR_RETURN(const int64_t begin_ns, MarkIn(marks, phase.begin));
    XORBIT_ASSIGN_OR_RETURN(const int64_t end_ns, MarkIn(marks, phase.end));
    spans.push_back({phase.actor, phase.name, begin_ns, end_ns});
    return {};
  };
  for (const MarkedPhase& phase : kBeforeSampler) XORBIT_RETURN_IF_ERROR(add(phase));
  XORBIT_ASSIGN_OR_RETURN(int64_t at, MarkIn(marks, "noticed"));
  for (const std::string_view stage : kPrepareStages) {
    XORBIT_ASSIGN_OR_RETURN(const int64_t length, MarkIn(marks, "stage " + std::string(stage)));
    spans.push_back({"sampler", stage, at, at + length});
    at += length;
  }
  XORBIT_RETURN_IF_ERROR(add({"sampler", "engine stands still", "paused", "resumed"}));
  XORBIT_ASSIGN_OR_RETURN(const int64_t apply, MarkIn(marks, "stage apply"));
  const int64_t paused = spans.back().begin_ns;
  spans.push_back({"sampler", "of it: apply + check", paused, paused + apply});
  XORBIT_RETURN_IF_ERROR(add({"all", "step done to resumed", "step done", "resumed"}));
  return spans;
}

double Milliseconds(int64_t ns) { return static_cast<double>(ns) / 1e6; }

}  // namespace

double EndToEndSetting::share_count() const { return kReferenceModelBytes / static_cast<double>(share_bytes); }

Result<EndToEndReport> ReportOf(const EndToEndSetting& setting, const MarkLog& log) {
  EndToEndReport report;
  report.setting = setting;
  std::vector<std::vector<Span>> versions;
  for (const auto& [version, marks] : log.versions()) {
    if (version == 0) continue;  // the stream's own objects
    XORBIT_ASSIGN_OR_RETURN(std::vector<Span> spans, SpansOf(marks));
    versions.push_back(std::move(spans));
    XORBIT_ASSIGN_OR_RETURN(const int64_t wrong, MarkIn(marks, "wrong bytes"));
    XORBIT_ASSIGN_OR_RETURN(const int64_t payload, MarkIn(marks, "payload bytes"));
    XORBIT_ASSIGN_OR_RETURN(const int64_t changes, MarkIn(marks, "changes"));
    report.wrong_bytes += static_cast<uint64_t>(wrong);
    report.payload_bytes = std::max(report.payload_bytes, static_cast<uint64_t>(payload));
    report.change_count = std::max(report.change_count, static_cast<uint64_t>(changes));
  }
  if (versions.empty()) return CorruptError("the benchmark has measured nothing");
  report.rounds = versions.size();
  for (size_t i = 0; i < versions.front().size(); ++i) {
    std::vector<double> begins_ms;
    std::vector<double> lengths_ms;
    for (const std::vector<Span>& spans : versions) {
      begins_ms.push_back(Milliseconds(spans[i].begin_ns - spans.front().begin_ns));
      lengths_ms.push_back(Milliseconds(spans[i].end_ns - spans[i].begin_ns));
    }
    const auto [least, most] = std::ranges::minmax(lengths_ms);
    const Span& span = versions.front()[i];
    report.phases.push_back(
        {std::string(span.actor), std::string(span.name), Median(begins_ms), Median(lengths_ms), least, most});
  }
  return report;
}

std::string TableOf(const EndToEndReport& report) {
  const EndToEndSetting& setting = report.setting;
  const double shares = setting.share_count();
  const auto payload_bytes = static_cast<double>(report.payload_bytes);
  std::string text = fmt::format(
      "{} on {}, {}: a share of {}, of which {} elements change; medians of {} versions, every byte verified\n"
      "445 GB are {:.2f} such shares. Each has a sampler's GPU, {} trainers' GPUs and 1/{:.2f} of the link: {:.3f} of {:g} "
      "Gb/s, round trip {:g} ms.\n"
      "Times are of one share, and all shares go at once: no time is multiplied. Payload {}, {:.3f} GB for all shares.\n\n"
      "{:<8} {:<28} {:>10} {:>10} {:>10} {:>10}\n",
      setting.codec, setting.backend, setting.workload, HumanBytes(static_cast<double>(setting.share_bytes)),
      report.change_count, report.rounds, shares, setting.owner_count, shares, setting.share_gbps(), setting.gbps,
      setting.rtt_ms, HumanBytes(payload_bytes), payload_bytes * shares / 1e9, "who", "phase, in ms", "begins at", "median",
      "least", "most");
  for (const EndToEndPhase& phase : report.phases) {
    text += fmt::format("{:<8} {:<28} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f}\n", phase.actor, phase.name, phase.begin_ms,
                        phase.median_ms, phase.least_ms, phase.most_ms);
  }
  return text;
}

Json FieldsOf(const EndToEndReport& report) {
  const EndToEndSetting& setting = report.setting;
  Json phases = Json::array();
  for (const EndToEndPhase& phase : report.phases) {
    phases.push_back({{"actor", phase.actor},
                      {"phase", phase.name},
                      {"begin_ms", phase.begin_ms},
                      {"median_ms", phase.median_ms},
                      {"least_ms", phase.least_ms},
                      {"most_ms", phase.most_ms}});
  }
  return {{"backend", setting.backend},
          {"codec", setting.codec},
          {"workload", setting.workload},
          {"share_bytes", setting.share_bytes},
          {"owners", setting.owner_count},
          {"gbps", setting.gbps},
          {"share_gbps", setting.share_gbps()},
          {"rtt_ms", setting.rtt_ms},
          {"rounds", report.rounds},
          {"payload_bytes", report.payload_bytes},
          {"changes", report.change_count},
          {"wrong_bytes", report.wrong_bytes},
          {"phases", phases}};
}

std::string CsvOf(const EndToEndReport& report) {
  const EndToEndSetting& setting = report.setting;
  std::string text =
      "backend,codec,workload,share_bytes,owners,gbps,rtt_ms,payload_bytes,changes,rounds,actor,phase,begin_ms,median_ms,"
      "least_ms,most_ms\n";
  for (const EndToEndPhase& phase : report.phases) {
    text += fmt::format("{},{},{},{},{},{:g},{:g},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f}\n", setting.backend, setting.codec,
                        setting.workload, setting.share_bytes, setting.owner_count, setting.gbps, setting.rtt_ms,
                        report.payload_bytes, report.change_count, report.rounds, phase.actor, '"' + phase.name + '"',
                        phase.begin_ms, phase.median_ms, phase.least_ms, phase.most_ms);
  }
  return text;
}

Result<std::string> TraceOf(const MarkLog& log) {
  std::vector<TimedSpan> all;
  for (const auto& [version, marks] : log.versions()) {
    if (version == 0) continue;
    XORBIT_ASSIGN_OR_RETURN(const std::vector<Span> spans, SpansOf(marks));
    for (const Span& span : spans) {
      // What overlaps needs rows of its own.
      const std::string row = span.actor == "link" || span.name.starts_with("of it") ? std::string(span.name) : "phases";
      all.push_back({std::string(span.actor), row, std::string(span.name) + ", version " + std::to_string(version),
                     span.begin_ns, span.end_ns});
    }
    for (TimedSpan& span : SpansIn(marks)) all.push_back(std::move(span));
  }
  return ChromeTraceOf(all);
}

}  // namespace xorbit
