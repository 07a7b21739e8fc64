#include "cli/ranks_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "base/stopwatch.h"
#include "transport/folder_store.h"

namespace xorbit {
namespace {

constexpr double kMsPerNs = 1e-6;

void AddTimes(std::string what, const std::vector<double>& times_ms, std::string note, RanksReport* report) {
  if (times_ms.empty()) {
    report->rows.push_back({std::move(what), "ms", 0, 0, 0, 0, std::move(note)});
    return;
  }
  const auto [least, most] = std::ranges::minmax(times_ms);
  report->rows.push_back({std::move(what), "ms", Median(times_ms), least, most, times_ms.size(), std::move(note)});
}

void AddCount(std::string what, std::string unit, uint64_t count, std::string note, RanksReport* report) {
  const auto value = static_cast<double>(count);
  report->rows.push_back({std::move(what), std::move(unit), value, value, value, 1, std::move(note)});
}

// When a rank's engine stopped, and when it served again.
using Gate = std::pair<int64_t, int64_t>;

// Of an engine's ranks: from the first gate that closes to the last that opens.
double PauseMs(const RanksRun& run, uint32_t engine, const std::function<Gate(const SamplerSlot&)>& gate) {
  int64_t closed = INT64_MAX;
  int64_t open = INT64_MIN;
  for (uint32_t rank = 0; rank < run.rank_count; ++rank) {
    const auto [rank_closed, rank_open] = gate(run.board->samplers[engine * run.rank_count + rank]);
    if (rank_closed == 0) continue;  // it never stopped
    closed = std::min(closed, rank_closed);
    open = std::max(open, rank_open);
  }
  return closed > open ? 0 : static_cast<double>(open - closed) * kMsPerNs;
}

void AddPauses(const RanksRun& run, RanksReport* report) {
  std::vector<double> whole_ms;
  std::vector<double> own_ms;
  for (uint64_t version = 1; version <= run.round_count; ++version) {
    const auto gate = [&](const SamplerSlot& slot) {
      return Gate(slot.times[version].gate_closed_ns, slot.times[version].gate_open_ns);
    };
    for (uint32_t engine = 0; engine < run.engine_count; ++engine) whole_ms.push_back(PauseMs(run, engine, gate));
    for (uint32_t index = 0; index < run.sampler_count(); ++index) {
      const auto [closed, open] = gate(run.board->samplers[index]);
      own_ms.push_back(static_cast<double>(open - closed) * kMsPerNs);
    }
  }
  AddTimes("pause of all ranks", whole_ms, "of an engine: first gate closed to last gate open", report);
  AddTimes("pause of each rank", own_ms, "", report);
}

// One of a sampler's or trainer's stages over all of its ranks and versions.
void AddStage(const RanksRun& run, std::string what, double SamplerTimes::*stage, RanksReport* report) {
  std::vector<double> times_ms;
  for (uint64_t version = 1; version <= run.round_count; ++version) {
    for (uint32_t index = 0; index < run.sampler_count(); ++index) {
      times_ms.push_back(run.board->samplers[index].times[version].*stage * 1e3);
    }
  }
  AddTimes(std::move(what), times_ms, "", report);
}
void AddStage(const RanksRun& run, std::string what, double TrainerTimes::*stage, std::string note, RanksReport* report) {
  std::vector<double> times_ms;
  for (uint64_t version = 1; version <= run.round_count; ++version) {
    for (uint32_t rank = 0; rank < run.trainer_count; ++rank) {
      times_ms.push_back(run.board->trainers[rank].times[version].*stage * 1e3);
    }
  }
  AddTimes(std::move(what), times_ms, std::move(note), report);
}

void AddKills(const RanksRun& run, RanksReport* report) {
  constexpr std::array<std::string_view, kDeaths.size()> kNames = {"killed before its vote", "killed before its gate",
                                                                   "killed while it applied"};
  for (uint64_t version = run.round_count + 1; version <= run.newest(); ++version) {
    const double pause_ms = PauseMs(
        run, 0, [&](const SamplerSlot& slot) { return Gate(slot.back_closed_ns[version], slot.back_open_ns[version]); });
    const std::string_view name = kNames[static_cast<size_t>(*run.DeathAt(version))];
    AddTimes(fmt::format("a rank {}: pause of the others", name), {pause_ms}, "no rank updated, then all", report);
  }
}

Status AddProofs(const RanksRun& run, RanksReport* report) {
  XORBIT_ASSIGN_OR_RETURN(const auto store, OpenFolderStore(PosixFileOps(), run.store));
  XORBIT_ASSIGN_OR_RETURN(Stream stream, Stream::Open(*store, kRanksStream));
  XORBIT_ASSIGN_OR_RETURN(const VersionRecord record, stream.CommittedRecord(run.newest()));
  std::vector<StateDigest> sums(run.engine_count);
  uint64_t fetched_bytes = 0;
  uint64_t checked_bytes = 0;
  for (uint32_t index = 0; index < run.sampler_count(); ++index) {
    const SamplerSlot& slot = run.board->samplers[index];
    sums[index / run.rank_count] += slot.state;
    report->fetched_objects += slot.fetched.objects;
    fetched_bytes += slot.fetched.bytes;
    checked_bytes += slot.byte_count;
    for (uint64_t version = 1; version <= run.newest(); ++version) {
      report->wrong_bytes += slot.times[version].wrong_bytes + slot.back_wrong_bytes[version];
    }
  }
  report->digests_equal = std::ranges::all_of(sums, [&](const StateDigest& sum) { return sum == record.target; });
  report->payload_objects = run.newest() * run.trainer_count;
  uint64_t payload_bytes = 0;
  for (uint64_t version = 1; version <= run.newest(); ++version) {
    XORBIT_ASSIGN_OR_RETURN(const Edge edge, stream.StepEdge(version));
    payload_bytes += edge.byte_count;
  }
  AddCount("changes in a version", "", run.board->samplers[0].times[1].change_count, "", report);
  AddCount("payload of a version", "bytes", payload_bytes / run.newest(), "mean", report);
  AddCount("fetched by this host, all versions", "bytes", fetched_bytes,
           fmt::format("{} objects; {} were published", report->fetched_objects, report->payload_objects), report);
  AddCount("wrong bytes, all ranks and versions", "bytes", report->wrong_bytes,
           fmt::format("each version compared with the formula, {} bytes", checked_bytes), report);
  AddCount("ranks' digests add up to the newest version's", "", report->digests_equal ? 1 : 0, ToText(record.target), report);
  return {};
}

void AddRivals(const RanksRun& run, RanksReport* report) {
  for (const RivalSlot& rival : run.board->rivals) {
    if (rival.name[0] == 0) continue;
    std::string note = rival.note.data();
    if (rival.byte_count > 0) note += fmt::format("{}{} bytes a device", note.empty() ? "" : "; ", rival.byte_count);
    AddTimes(rival.name.data(), {rival.times_ms.begin(), rival.times_ms.begin() + rival.run_count}, std::move(note), report);
  }
}

std::string WithoutCommas(std::string text) {
  std::ranges::replace(text, ',', ';');
  return text;
}

std::string ValueText(const RanksRow& row, double value) {
  return row.unit == "ms" ? fmt::format("{:.3f}", value) : fmt::format("{:.0f}", value);
}

}  // namespace

Result<RanksReport> ReportOf(const RanksRun& run) {
  RanksReport report;
  AddPauses(run, &report);
  AddStage(run, "gate: until all have stopped", &SamplerTimes::gate_s, &report);
  AddStage(run, "apply", &SamplerTimes::apply_s, &report);
  AddStage(run, "outcome: until all have applied", &SamplerTimes::outcome_s, &report);
  AddStage(run, "fetch", &SamplerTimes::fetch_s, &report);
  AddStage(run, "prepare", &SamplerTimes::prepare_s, &report);
  AddStage(run, "trainer rank: diff and encode", &TrainerTimes::encode_s,
           fmt::format("{} bytes of each of two states", run.board->trainers[0].byte_count), &report);
  if (run.on_devices) AddStage(run, "trainer rank: copy to the host", &TrainerTimes::copy_out_s, "", &report);
  AddStage(run, "trainer rank: hash and store", &TrainerTimes::store_s, "", &report);
  AddKills(run, &report);
  XORBIT_RETURN_IF_ERROR(AddProofs(run, &report));
  AddRivals(run, &report);
  return report;
}

std::string TableOf(const RanksRun& run, const RanksReport& report) {
  std::string text = fmt::format(
      "{} of {}, {}, {}; a model of {}, {:.3f} % of its elements changed, {}\n\n"
      "{:<56} {:>14} {:>14} {:>14} {:>5}  {}\n",
      Counted(run.engine_count, "engine"), Counted(run.rank_count, "sampler rank"), Counted(run.trainer_count, "trainer rank"),
      run.on_devices ? Counted(run.device_count, "GPU") : std::string("host memory"),
      HumanBytes(static_cast<double>(run.model.byte_count())),
      static_cast<double>(run.model.formula.element_threshold) / 42949672.96, Counted(run.newest(), "version"), "", "median",
      "least", "most", "runs", "");
  for (const RanksRow& row : report.rows) {
    text += fmt::format("{:<56} {:>14} {:>14} {:>14} {:>5}  {}\n", row.what + (row.unit.empty() ? "" : ", " + row.unit),
                        ValueText(row, row.median), ValueText(row, row.least), ValueText(row, row.most), row.runs, row.note);
  }
  return text;
}

Json FieldsOf(const RanksRun& run, const RanksReport& report) {
  Json rows = Json::array();
  for (const RanksRow& row : report.rows) {
    rows.push_back({{"what", row.what},
                    {"unit", row.unit},
                    {"median", row.median},
                    {"least", row.least},
                    {"most", row.most},
                    {"runs", row.runs},
                    {"note", row.note}});
  }
  return {{"engines", run.engine_count},
          {"ranks", run.rank_count},
          {"trainers", run.trainer_count},
          {"devices", run.on_devices ? run.device_count : 0},
          {"model_bytes", run.model.byte_count()},
          {"versions", run.newest()},
          {"wrong_bytes", report.wrong_bytes},
          {"digests_equal", report.digests_equal},
          {"payload_objects", report.payload_objects},
          {"fetched_objects", report.fetched_objects},
          {"rows", rows}};
}

std::string CsvOf(const RanksRun& run, const RanksReport& report, bool with_header) {
  std::string text =
      with_header ? "engines,ranks,trainers,devices,model_bytes,percent,what,unit,median,least,most,runs,note\n" : "";
  for (const RanksRow& row : report.rows) {
    text += fmt::format("{},{},{},{},{},{:.4f},{},{},{},{},{},{},{}\n", run.engine_count, run.rank_count, run.trainer_count,
                        run.on_devices ? run.device_count : 0, run.model.byte_count(),
                        static_cast<double>(run.model.formula.element_threshold) / 42949672.96, WithoutCommas(row.what),
                        row.unit, ValueText(row, row.median), ValueText(row, row.least), ValueText(row, row.most), row.runs,
                        WithoutCommas(row.note));
  }
  return text;
}

}  // namespace xorbit
