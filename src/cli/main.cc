// xorbit: exact weight deltas from trainers to samplers. Parses the command line, runs one subcommand, prints its answer.
#include <csignal>
#include <cstdio>
#include <new>
#include <string>

#include "base/text.h"
#include "cli/command.h"
#include "cli/standard_streams.h"
#include "cli/stop_watcher.h"

namespace xorbit {
namespace {

constexpr int kUsageExitCode = 2;

// What is wrong with a command line, and whose help says more. The parser only misses a command where one has a wrong name.
std::string UsageLine(const CLI::App& app, const char* first_argument, const std::string& what) {
  const std::string name = first_argument == nullptr ? "" : first_argument;
  const bool is_command = !app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; }).empty();
  if (is_command) return what + "; see 'xorbit " + name + " --help'";
  if (name.empty() || name.front() == '-') return what + "; see 'xorbit --help'";
  return "there is no command " + Quoted(name) + "; see 'xorbit --help'";
}

// One line on standard error, which may be closed: that must not turn one failure into another.
void PrintLine(const std::string& message) {
  const std::string line = "xorbit: " + Printable(message) + "\n";  // paths may hold anything
  (void)std::fputs(line.c_str(), stderr);
}

int PrintError(const Status& status, bool json) {
  if (json) {
    const Json error = {{"error", {{"kind", NameOf(status.code())}, {"message", status.message()}}}};
    (void)std::puts(error.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  }
  PrintLine(status.message());
  return ExitCodeOf(status.code());
}

int Run(const Invocation& invocation) {
  const StopWatcher watcher;
  Result<Answer> answer = [&]() -> Result<Answer> {
    XORBIT_ASSIGN_OR_RETURN(const auto session, Session::Start(invocation.common));
    return invocation.run(*session);
  }();
  if (!answer.ok()) return PrintError(answer.status(), invocation.common.json);
  if (invocation.common.json) {
    answer->text = answer->fields.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  const bool written = std::fputs(answer->text.c_str(), stdout) >= 0;
  if (!written || std::fflush(stdout) != 0) return PrintError(IoError("cannot write to standard output"), false);
  return answer->exit_code;
}

int Main(int argc, char** argv) {
  KeepStandardStreams();
  // A file size limit shall be an error like a full disk (EFBIG), not a death in the middle of a write.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  CLI::App app("xorbit: exact deltas of model weights, near the entropy of the change", "xorbit");
  app.require_subcommand(1);
  app.set_version_flag("--version", "xorbit " XORBIT_VERSION);
  Invocation invocation;
  AddDiffCommand(app, &invocation);
  AddApplyCommand(app, &invocation);
  AddVerifyCommand(app, &invocation);
  AddInspectCommand(app, &invocation);
  AddFoldCommand(app, &invocation);
  AddStatsCommand(app, &invocation);
  AddPublishCommand(app, &invocation);
  AddPullCommand(app, &invocation);
  AddServeCommand(app, &invocation);
  AddDriveCommand(app, &invocation);
  AddLogCommand(app, &invocation);
  AddGcCommand(app, &invocation);
  AddBenchCommand(app, &invocation);
  AddDemoCommand(app, &invocation);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    PrintLine(UsageLine(app, argc > 1 ? argv[1] : nullptr, error.what()));
    return kUsageExitCode;
  }
  return Run(invocation);
}

}  // namespace
}  // namespace xorbit

int main(int argc, char** argv) {
  // The libraries below turn their exceptions into Status; what is left is memory running out.
  try {
    return xorbit::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    xorbit::PrintLine("this takes more memory than this machine has left");
    return xorbit::ExitCodeOf(xorbit::Code::kIo);
  } catch (const std::exception& error) {
    xorbit::PrintLine(error.what());
    return xorbit::ExitCodeOf(xorbit::Code::kIo);
  }
}
