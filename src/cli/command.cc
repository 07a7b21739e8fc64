#include "cli/command.h"

#include <fmt/core.h>

#include <array>

#include "backend/cpu/cpu_backend.h"
#include "base/cpu_level.h"
#include "base/parallel.h"
#include "base/text.h"
#include "cli/progress_bar.h"

namespace xorbit {

Result<std::unique_ptr<Session>> Session::Start(const CommonOptions& options) {
  auto session = std::make_unique<Session>();
  if (!options.cpu.empty()) {
    const auto level = ParseCpuLevel(options.cpu);
    if (!level) return UsageError("there is no SIMD level '" + options.cpu + "'; choose portable, avx2, avx512 or neon");
    XORBIT_RETURN_IF_ERROR(ForceCpuLevel(level));
  }
  session->backend_ = MakeCpuBackend();
  session->bar_ = std::make_unique<ProgressBar>(session->progress_);
  session->runtime_ = {.backend = session->backend_.get(),
                       .file_ops = &PosixFileOps(),
                       .threads = options.threads > 0 ? options.threads : DefaultThreadCount(),
                       .timers = &session->timers_,
                       .progress = &session->progress_};
  return session;
}

Session::~Session() = default;

CLI::App* AddCommand(CLI::App& app, Invocation* invocation, const std::string& name, const std::string& description,
                     std::function<Result<Answer>(Session&)> run) {
  CLI::App* command = app.add_subcommand(name, description);
  command->add_flag("--json", invocation->common.json, "Answer as one JSON object on standard output");
  command->add_option("--threads", invocation->common.threads, "Threads to compute with (default: all that may be used)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--cpu", invocation->common.cpu, "SIMD level to use: portable, avx2, avx512 or neon (default: the best)");
  command->callback([invocation, run = std::move(run)] { invocation->run = run; });
  return command;
}

Result<std::optional<CodecId>> CodecOptions::Find() const {
  const bool has_level = zstd_level != EncodeOptions{}.zstd_level;
  if (codec.empty()) {
    if (has_level) return UsageError("--zstd-level needs --codec, with a codec that has a Zstd stage");
    return std::optional<CodecId>();
  }
  const Codec* found = FindCodec(codec);
  if (found != nullptr && has_level && codec.find("zstd") == std::string::npos) {
    return UsageError("the codec " + codec + " has no Zstd stage: leave out --zstd-level");
  }
  if (found != nullptr) return std::optional<CodecId>(found->id());
  std::string names;
  for (const Codec* known : AllCodecs()) names += (names.empty() ? "" : ", ") + std::string(known->name());
  return UsageError("there is no codec '" + codec + "'; choose one of " + names);
}

void AddCodecOptions(CLI::App* command, CodecOptions* options) {
  command->add_option("--codec", options->codec, "sparse (default), snappy, lz4, snappy+zstd, lz4+zstd or zstd");
  command->add_option("--zstd-level", options->zstd_level, "Level of the Zstd stage of codecs that have one")
      ->check(CLI::Range(1, 19));
}

std::string HumanBytes(double bytes) {
  static constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{:.{}f} {}", bytes, bytes < 9.995 ? 2 : (bytes < 99.95 ? 1 : 0), kUnits[unit]);
}

double BitsPerChange(double bytes, uint64_t change_count) {
  return change_count == 0 ? 0 : bytes * 8 / static_cast<double>(change_count);
}

std::string Counted(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string HumanSeconds(double seconds) {
  if (seconds < 1) return fmt::format("{:.{}f} ms", seconds * 1000, seconds < 0.00995 ? 2 : (seconds < 0.0995 ? 1 : 0));
  return fmt::format("{:.2f} s", seconds);
}

Json TimingsOf(const StageTimers& timers) {
  Json timings = Json::object();
  for (const StageTimers::Entry& entry : timers.entries()) timings[entry.name + "_s"] = entry.seconds;
  return timings;
}

CLI::Validator NumberBetween(double least, double most) {
  const std::string range = fmt::format("{} to {}", least, most);
  const auto check = [least, most, range](const std::string& text) {
    double number = 0;
    const bool is_there = CLI::detail::lexical_cast(text, number) && number >= least && number <= most;
    return is_there ? std::string() : Quoted(text) + " is not a number from " + range;
  };
  return {check, "NUMBER from " + range};
}

CLI::Validator NotEmpty() {
  return {[](const std::string& text) {
            return text.empty() ? std::string("is empty: leave the option out, or name something") : std::string();
          },
          ""};
}

}  // namespace xorbit
