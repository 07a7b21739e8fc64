// xorbit drive --store STORE --engines URL... [--version N | --follow] [--independent]
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "cli/command.h"
#include "cli/stop_watcher.h"
#include "cli/store_options.h"
#include "cli/token_file.h"
#include "drive/drive.h"

namespace xorbit {
namespace {

struct DriveOptions {
  StoreOptions store;
  std::vector<std::string> engines;
  std::optional<uint64_t> version;
  bool follows = false;
  bool is_strict = false;
  bool is_independent = false;
  double prepare_seconds = 600;
  double apply_seconds = 30;
  std::string token_file;
};

Json EngineJson(const DrivenAddress& address, const DrivenEngine& engine) {
  return {{"engine", address.url},
          {"engine_id", engine.identity.engine_id},
          {"result", NameOf(engine.standing)},
          {"version", engine.is_heard ? Json(engine.applied_version) : Json()},
          {"recovered", engine.was_recovered},
          {"prepare_ms", engine.prepare_ms},
          {"pause_ms", engine.pause_seconds * 1e3},
          {"reason", engine.why}};
}

Json ReportJson(const DriveRequest& request, const DriveReport& report) {
  Json engines = Json::array();
  for (size_t i = 0; i < report.engines.size(); ++i) engines.push_back(EngineJson(request.engines[i], report.engines[i]));
  return {{"version", report.version}, {"all_current", report.all_current()}, {"aborted", report.abort_reason},
          {"sync_id", report.sync_id}, {"seconds", report.seconds},           {"engines", std::move(engines)}};
}

// A line a version, and one for every engine that is not there.
std::string ReportText(const DriveRequest& request, const DriveReport& report) {
  double pause = 0;
  uint64_t current = 0;
  for (const DrivenEngine& engine : report.engines) {
    pause = std::max(pause, engine.pause_seconds);
    current += engine.standing == Standing::kCurrent ? 1 : 0;
  }
  std::string text =
      fmt::format("version {}: {} of {} current after {}, longest pause {}, {}\n", report.version, current,
                  Counted(report.engines.size(), "engine"), HumanSeconds(report.seconds), HumanSeconds(pause), report.sync_id);
  if (!report.abort_reason.empty()) text += "  aborted: " + Printable(report.abort_reason) + "\n";
  for (size_t i = 0; i < report.engines.size(); ++i) {
    const DrivenEngine& engine = report.engines[i];
    if (engine.standing == Standing::kCurrent && !engine.was_recovered) continue;
    text += fmt::format("  {} {}", request.engines[i].url, NameOf(engine.standing));
    if (engine.is_heard) text += fmt::format(" at version {}", engine.applied_version);
    if (engine.was_recovered) text += ", recovered by one call";
    text += engine.why.empty() ? "\n" : ": " + Printable(engine.why) + "\n";
  }
  return text;
}

Result<DriveRequest> MakeRequest(const DriveOptions& options) {
  DriveRequest request;
  for (const std::string& url : options.engines) {
    XORBIT_ASSIGN_OR_RETURN(HttpEndpoint endpoint, ParseHttpEndpoint(url));
    for (const DrivenAddress& other : request.engines) {
      if (other.endpoint.address == endpoint.address && other.endpoint.port == endpoint.port) {
        return UsageError("--engines names one engine twice: " + Quoted(other.url) + " and " + Quoted(url));
      }
    }
    request.engines.push_back({url, std::move(endpoint)});
  }
  XORBIT_ASSIGN_OR_RETURN(request.token, ReadToken(options.token_file));
  request.version = options.version;
  request.rules.is_strict = !options.is_independent;
  request.rules.prepare_ms = static_cast<int64_t>(options.prepare_seconds * 1e3);
  request.rules.apply_ms = static_cast<int64_t>(options.apply_seconds * 1e3);
  request.rules.lease_ms = std::max(request.rules.lease_ms, request.rules.apply_ms);
  return request;
}

Result<Answer> Follow(Stream& stream, const DriveRequest& request, const std::stop_token& stop, bool json) {
  Answer answer;
  XORBIT_RETURN_IF_ERROR(DriveOn(stream, request, stop, [&](const DriveReport& report) {
    const std::string line = json ? ReportJson(request, report).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"
                                  : ReportText(request, report);
    (void)std::fputs(line.c_str(), stdout);  // whoever reads it line by line must not wait for a buffer
    (void)std::fflush(stdout);
    answer.fields = {{"version", report.version}, {"all_current", report.all_current()}};
    answer.exit_code = report.all_current() ? 0 : 1;
  }));
  answer.text = "stopped\n";
  return answer;
}

Result<Answer> RunDrive(Session& session, const DriveOptions& options, bool json) {
  XORBIT_ASSIGN_OR_RETURN(const DriveRequest request, MakeRequest(options));
  XORBIT_ASSIGN_OR_RETURN(const auto store, OpenStore(session.runtime(), options.store, /*may_create=*/false));
  XORBIT_ASSIGN_OR_RETURN(Stream stream, Stream::Open(*store, options.store.stream_id));
  std::stop_source stop;
  const GracefulStop graceful([&] { stop.request_stop(); });
  if (options.follows) return Follow(stream, request, stop.get_token(), json);
  XORBIT_ASSIGN_OR_RETURN(const DriveReport report, DriveOnce(stream, request, stop.get_token()));
  Answer answer;
  answer.fields = ReportJson(request, report);
  answer.text = ReportText(request, report);
  answer.exit_code = report.all_current() ? 0 : 1;
  return answer;
}

}  // namespace

void AddDriveCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<DriveOptions>();
  CLI::App* command =
      AddCommand(app, invocation, "drive", "Take several samplers to a version together, or each by itself",
                 [options, invocation](Session& session) { return RunDrive(session, *options, invocation->common.json); });
  command->add_option("--store", options->store.store, "A folder, local or on a network file system")->required();
  command->add_option("--stream", options->store.stream_id, "Which stream; may be left out while the store has one");
  command->add_option("--engines", options->engines, "Addresses of xorbit serve, as http://127.0.0.1:30000")->required();
  CLI::Option* version = command->add_option("--version", options->version, "Which version (the newest)");
  version->check(CLI::Range(uint64_t{0}, kMaxVersion));
  command->add_flag("--follow", options->follows, "Go on with every version that comes; a line each")->excludes(version);
  CLI::Option* together =
      command->add_flag("--strict", options->is_strict, "All engines change together or none does (this is the default)");
  command->add_flag("--independent", options->is_independent, "Each engine goes through its update by itself")
      ->excludes(together);
  command
      ->add_option("--prepare-seconds", options->prepare_seconds, "Who has not fetched and verified by then is dropped (600)")
      ->check(NumberBetween(0.001, 86'000.0));
  command->add_option("--apply-seconds", options->apply_seconds, "Who has not applied by then is dropped (30)")
      ->check(NumberBetween(0.001, 86'000.0));
  command->add_option("--token-file", options->token_file, "File with the engines' admin token")->check(NotEmpty());
}

}  // namespace xorbit
