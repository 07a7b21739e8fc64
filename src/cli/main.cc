// xorbit: exact weight deltas from trainers to samplers. Parses the command line, runs one subcommand, prints its answer.
#include <fmt/core.h>

#include <cstdio>

#include "cli/command.h"

namespace xorbit {
namespace {

constexpr int kUsageExitCode = 2;

int PrintError(const Status& status, bool json) {
  if (json) {
    const Json error = {{"error", {{"kind", NameOf(status.code())}, {"message", status.message()}}}};
    fmt::print("{}\n", error.dump(2, ' ', false, Json::error_handler_t::replace));
  }
  fmt::print(stderr, "xorbit: {}\n", status.message());
  return ExitCodeOf(status.code());
}

int Run(const Invocation& invocation) {
  Result<Answer> answer = [&]() -> Result<Answer> {
    XORBIT_ASSIGN_OR_RETURN(const auto session, Session::Start(invocation.common));
    return invocation.run(*session);
  }();
  if (!answer.ok()) return PrintError(answer.status(), invocation.common.json);
  if (invocation.common.json) {
    fmt::print("{}\n", answer->fields.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}", answer->text);
  }
  if (std::fflush(stdout) != 0) return PrintError(IoError("cannot write to standard output"), false);
  return answer->exit_code;
}

int Main(int argc, char** argv) {
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
  AddBenchCommand(app, &invocation);
  AddDemoCommand(app, &invocation);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "xorbit: {}; see 'xorbit --help'\n", error.what());
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
  } catch (const std::exception& error) {
    fmt::print(stderr, "xorbit: {}\n", error.what());
    return xorbit::ExitCodeOf(xorbit::Code::kIo);
  }
}
