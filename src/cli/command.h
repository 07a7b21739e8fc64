// What the subcommands share: common options, the runtime they run with, and how they answer.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/progress.h"
#include "base/stage_timer.h"
#include "journey/journey.h"

namespace xorbit {

using Json = nlohmann::ordered_json;

// Options that every subcommand takes.
struct CommonOptions {
  bool json = false;
  int threads = 0;  // 0: all that this process may use
  std::string cpu;  // SIMD level by name; empty: the best there is
};

// A subcommand's answer: fields for --json, lines for people, and the exit code (0, or 1 for "no" as an answer).
struct Answer {
  Json fields;
  std::string text;
  int exit_code = 0;
};

// One run of a subcommand: a backend, timers and a progress bar on standard error where that is a terminal.
class Session {
 public:
  static Result<std::unique_ptr<Session>> Start(const CommonOptions& options);
  Session() = default;  // not ready for use: Start makes sessions
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  const Runtime& runtime() const { return runtime_; }
  StageTimers& timers() { return timers_; }

 private:
  StageTimers timers_;
  Progress progress_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<class ProgressBar> bar_;
  Runtime runtime_;
};

// Set by the subcommand that was given; main runs it after parsing.
struct Invocation {
  std::function<Result<Answer>(Session&)> run;
  CommonOptions common;
};

// Adds a subcommand with the common options; `run` is called if the user asked for it.
CLI::App* AddCommand(CLI::App& app, Invocation* invocation, const std::string& name, const std::string& description,
                     std::function<Result<Answer>(Session&)> run);

// Checks of options. A number in these bounds; as CLI::Range, which lets through what is no number.
CLI::Validator NumberBetween(double least, double most);
// An option that is given says something: a variable that is not set does not.
CLI::Validator NotEmpty();

// One function per subcommand, each in its own file.
void AddDiffCommand(CLI::App& app, Invocation* invocation);
void AddApplyCommand(CLI::App& app, Invocation* invocation);
void AddVerifyCommand(CLI::App& app, Invocation* invocation);
void AddInspectCommand(CLI::App& app, Invocation* invocation);
void AddFoldCommand(CLI::App& app, Invocation* invocation);
void AddStatsCommand(CLI::App& app, Invocation* invocation);
void AddPublishCommand(CLI::App& app, Invocation* invocation);
void AddPullCommand(CLI::App& app, Invocation* invocation);
void AddServeCommand(CLI::App& app, Invocation* invocation);
void AddDriveCommand(CLI::App& app, Invocation* invocation);
void AddLogCommand(CLI::App& app, Invocation* invocation);
void AddGcCommand(CLI::App& app, Invocation* invocation);
void AddBenchCommand(CLI::App& app, Invocation* invocation);
void AddDemoCommand(CLI::App& app, Invocation* invocation);

// Options of diff and fold: --codec, --zstd-level.
struct CodecOptions {
  std::string codec;
  int zstd_level = EncodeOptions{}.zstd_level;
  // kUsage, listing the codecs, if there is none of that name, or if it has no Zstd stage for the level that was given; nothing
  // if none was named.
  Result<std::optional<CodecId>> Find() const;
};
void AddCodecOptions(CLI::App* command, CodecOptions* options);

// "1.23 GB", decimal units, three significant digits.
std::string HumanBytes(double bytes);
// Of a delta's bytes: payloads and manifest, which is what is sent. 0 where nothing has changed.
double BitsPerChange(double bytes, uint64_t change_count);
// "1 delta", "2 deltas".
std::string Counted(uint64_t count, std::string_view noun);
// "12.3 ms", "1.23 s".
std::string HumanSeconds(double seconds);
// Stage names and seconds.
Json TimingsOf(const StageTimers& timers);

}  // namespace xorbit
