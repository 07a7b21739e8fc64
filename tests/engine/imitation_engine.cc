// An engine for tests: it exports its weights in shared memory, computes from them in a loop (a sum over each tensor is its
// model), keeps requests and a cache, speaks SGLang's or vLLM's endpoints, and finds torn, mixed and stale weights by itself:
// each is a line on standard error and a count in GET /imitation_state. GET /imitation_steps: how long steps took since it was
// asked last.
//
// usage: imitation_engine --name /NAME --attachment FILE [--dialect sglang|vllm] [--port N] [--load N] [--seed N] VERSION...
// VERSION: the checkpoints of versions 0, 1, ...; it begins with the first.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <cstdio>
#include <thread>

#include "base/json.h"
#include "engine/endpoints.h"
#include "engine/judge.h"
#include "engine/scheduler.h"
#include "engine/step_times.h"
#include "receive/exported_memory.h"
#include "receive/host_memory.h"
#include "tensor/checkpoint.h"
#include "transport/http_server.h"

namespace xorbit::imitation {
namespace {

// From the base to any version at once: every element's old and new value, and where it is.
constexpr uint64_t kUndoOfWeights = 4;

struct Options {
  std::string name;
  std::string attachment;
  std::string dialect = "sglang";
  uint16_t port = 0;
  uint64_t load = 8;
  uint64_t seed = 1;
  std::vector<std::string> versions;
};

class Engine {
 public:
  explicit Engine(const Options& options) : options_(options), scheduler_(options.load, options.seed) {}

  Status Start() {
    for (const std::string& folder : options_.versions) {
      XORBIT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(folder));
      const std::vector<ConstBytes> tensors = checkpoint.all_tensor_bytes();
      judge_.Learn(tensors);
      if (memory_ != nullptr) continue;
      const Layout& layout = checkpoint.layout();
      uint64_t total_bytes = 0;
      for (const ConstBytes tensor : tensors) total_bytes += tensor.size();
      XORBIT_ASSIGN_OR_RETURN(memory_,
                              ExportedMemory::Make(layout, CanonicalMap(layout),
                                                   {options_.name, options_.attachment, kUndoOfWeights * total_bytes}));
      LoadTensors(memory_->live(), tensors);
      XORBIT_RETURN_IF_ERROR(memory_->Publish(layout));
    }
    XORBIT_ASSIGN_OR_RETURN(server_, HttpServer::Listen("127.0.0.1", options_.port, {.threads = 2}));
    (void)std::puts(fmt::format("{{\"port\":{}}}", server_->port()).c_str());
    (void)std::fflush(stdout);
    return {};
  }

  Status Run() {
    const std::jthread computing([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) Step();
    });
    const OwnPages pages = {{"/imitation_state", [this] { return State(); }}, {"/imitation_steps", [this] { return Steps(); }}};
    return server_->Run(
        [&](const HttpRequest& request) { return AnswerRequest(scheduler_, options_.dialect == "vllm", pages, request); },
        [](int status, const std::string& why) {
          HttpReply reply;
          reply.status = status;
          reply.body = why;
          return reply;
        });
  }

 private:
  void Step() {
    constexpr std::chrono::microseconds kRest{300};
    if (!scheduler_.Begin()) return std::this_thread::sleep_for(kRest);
    const std::optional<uint64_t> version = memory_->gate().TryEnter();
    if (!version) {
      scheduler_.End(0, /*has_computed=*/false);
      return std::this_thread::sleep_for(kRest);
    }
    const auto begin = std::chrono::steady_clock::now();
    std::vector<uint64_t> sums;
    for (const MutableBytes region : memory_->live().regions) sums.push_back(Xxh3Hash64Of(region));
    step_times_.Add(std::chrono::steady_clock::now() - begin);
    const std::string label = scheduler_.label();
    scheduler_.End(*version, /*has_computed=*/true);
    memory_->gate().Leave();
    Note(judge_.Of(sums, *version), *version, label);
    std::this_thread::sleep_for(kRest);
  }

  void Note(Verdict verdict, uint64_t version, const std::string& label) {
    ++verdicts_[static_cast<size_t>(verdict)];
    last_version_ = version;
    // An engine whose server is told versions names the one it computes with.
    const bool is_stale = label != "default" && label != std::to_string(version);
    stale_labels_ += is_stale ? 1 : 0;
    if (verdict == Verdict::kRight && !is_stale) return;
    constexpr std::array<std::string_view, 4> kNames = {"a stale label", "mixed versions", "torn weights", "another version"};
    (void)std::fputs(fmt::format("WRONG {}: {} in a step of version {}, label {}\n", options_.name,
                                 kNames[static_cast<size_t>(verdict)], version, label)
                         .c_str(),
                     stderr);
  }

  std::string State() const {
    const SchedulerCounts counts = scheduler_.counts();
    return DumpJson({{"steps", verdicts_[0].load()},
                     {"mixed", verdicts_[1].load()},
                     {"torn", verdicts_[2].load()},
                     {"other", verdicts_[3].load()},
                     {"stale_labels", stale_labels_.load()},
                     {"version", last_version_.load()},
                     {"paused", scheduler_.is_paused()},
                     {"closed", memory_->gate().is_closed()},
                     {"finished", counts.finished},
                     {"aborted", counts.aborted},
                     {"retracted", counts.retracted},
                     {"flushes", counts.flushes},
                     {"stale_prefixes", counts.stale_prefixes},
                     {"mixed_requests", counts.mixed_requests}});
  }

  std::string Steps() {
    const StepTimes::Summary steps = step_times_.Take();
    return DumpJson({{"count", steps.count}, {"p50_us", steps.p50_us}, {"p99_us", steps.p99_us}});
  }

  const Options options_;
  Judge judge_;
  StepTimes step_times_;
  Scheduler scheduler_;
  std::unique_ptr<ExportedMemory> memory_;
  std::unique_ptr<HttpServer> server_;
  std::array<std::atomic<uint64_t>, 4> verdicts_{};
  std::atomic<uint64_t> stale_labels_ = 0;
  std::atomic<uint64_t> last_version_ = 0;
};

int Main(int argc, char** argv) {
  CLI::App app("An engine for tests");
  Options options;
  app.add_option("--name", options.name)->required();
  app.add_option("--attachment", options.attachment)->required();
  app.add_option("--dialect", options.dialect);
  app.add_option("--port", options.port);
  app.add_option("--load", options.load);
  app.add_option("--seed", options.seed);
  app.add_option("VERSION", options.versions)->required();
  CLI11_PARSE(app, argc, argv);
  Engine engine(options);
  Status status = engine.Start();
  if (status.ok()) status = engine.Run();
  if (status.ok()) return 0;
  (void)std::fputs((status.message() + "\n").c_str(), stderr);
  return 1;
}

}  // namespace
}  // namespace xorbit::imitation

int main(int argc, char** argv) { return xorbit::imitation::Main(argc, argv); }
