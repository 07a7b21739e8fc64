// `xorbit serve` on a GPU of this machine, over loopback: weights that this program holds and exports by CUDA IPC, and weights
// of the server's own, at the reference's size and density. Measures the pause as a driver sees it (from the call of
// /apply_gpu_delta to the reply of /resume_gpu_delta), as the server does, phase by phase, and as an engine in a loop of short
// steps does; and what decode steps of another process lose while updates are prepared. Every byte is compared with the
// formula, or read by the server and compared with the stream's digest. Weights that somebody writes to before the pause are
// refused in it, and left as they are.
//
//   xorbit_serve_check --xorbit PATH --folder SCRATCH [--gigabytes 100] [--updates 11] [--steps 0] [--every 0]
//
// Output: lines of PauseTable, "steps,<beside what>,steps,p50 ms,p90,p99,most", "note,...", "FAILED,...".
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>

#include "backend/cuda/testing/big_model.h"
#include "backend/cuda/testing/decode_loop.h"
#include "base/parallel.h"
#include "base/stopwatch.h"
#include "formula_engine.h"
#include "pause_table.h"
#include "publish/contribution.h"
#include "publish/decide.h"
#include "served_process.h"
#include "tensor/safetensors.h"
#include "transport/folder_store.h"

namespace xorbit {
namespace {

using cuda::testing::UnsentModel;
using Json = nlohmann::json;

struct Options {
  std::string xorbit;
  fs::path folder;
  double gigabytes = 100;
  int updates = 11;
  uint64_t steps = 0;  // of decoding; 0: none
  double every_s = 0;  // how often an update is prepared beside them; 0: without a rest
};

void Note(const std::string& name, const std::string& value) {
  std::printf("note,%s,%s\n", name.c_str(), value.c_str());
  (void)std::fflush(stdout);
}

// The least time that `share` of them do not exceed.
double Percentile(std::vector<double> times, double share) {
  std::ranges::sort(times);
  return times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))];
}

class ServeCheck {
 public:
  explicit ServeCheck(Options options) : options_(std::move(options)) {}

  Status Run() {
    XORBIT_RETURN_IF_ERROR(Publish());
    XORBIT_RETURN_IF_ERROR(Attached());
    return Own();
  }

 private:
  // Version 0 is all zeros; 1 is the formula's.
  Status Publish() {
    const Stopwatch watch;
    XORBIT_ASSIGN_OR_RETURN(UnsentModel unsent,
                            cuda::testing::MakeUnsentShare(static_cast<uint64_t>(options_.gigabytes * 1e9)));
    model_ = std::move(unsent.model);
    store_root_ = options_.folder / "store";
    XORBIT_ASSIGN_OR_RETURN(const auto store, OpenFolderStore(PosixFileOps(), store_root_));
    StreamInfo info;
    info.stream_id = "serve-check";
    info.base_fingerprint = model_.layout.digest();  // of a formula there are no files to hash
    info.layout_digest = model_.layout.digest();
    XORBIT_ASSIGN_OR_RETURN(Stream stream, Stream::Create(*store, info, model_.layout));
    std::vector<std::vector<SegmentMap>> owners;
    owners.push_back(std::move(unsent.maps));
    const RankPlan plan = PlansOf(std::move(owners)).front();
    const PublicationPlace place{0, 1, "check"};
    EncodedOwner encoded{std::move(unsent.segments), StateDigest()};
    XORBIT_ASSIGN_OR_RETURN(const Payload payload,
                            PutContribution(stream, place, plan, CodecId::kSparse, std::move(encoded), {}, 16));
    XORBIT_RETURN_IF_ERROR(SealAndDecide(stream, place, {}).status());
    Note("weights bytes", std::to_string(model_.byte_count));
    Note("payload bytes", std::to_string(payload.byte_count));
    Note("seconds to make the stream", std::to_string(watch.seconds()));
    return {};
  }

  Status Attached() {
    XORBIT_ASSIGN_OR_RETURN(const auto engine, FormulaEngine::Export(model_, options_.folder));
    const Stopwatch watch;
    XORBIT_ASSIGN_OR_RETURN(
        const auto server,
        ServedProcess::Start(options_.xorbit, {"--attach", options_.folder / "engine.json", "--store", store_root_}));
    Note("seconds to attach", std::to_string(watch.seconds()));
    XORBIT_RETURN_IF_ERROR(RefuseForeignWrites(*server, engine->memory()));
    SteppingThread stepping(engine->gate());
    PauseTable pauses("attached");
    for (int i = 1; i <= options_.updates; ++i) {
      XORBIT_RETURN_IF_ERROR(UpdateTo(*server, i % 2, &pauses));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      pauses.Add("engine", stepping.TakeLongestStallMs());
      XORBIT_RETURN_IF_ERROR(ExpectVersion(engine->memory(), i % 2, "an update"));
    }
    Note("attached", "every byte is the formula's after each update");
    pauses.Print(model_.byte_count, change_count_);
    return options_.steps == 0 ? Status() : MeasureSteps(*server, engine->memory(), (options_.updates + 1) % 2);
  }

  static Status ExpectVersion(FormulaMemory& memory, int version, const std::string& after) {
    XORBIT_ASSIGN_OR_RETURN(const uint64_t wrong, memory.CountWrong(version == 1));
    if (wrong == 0) return {};
    return CorruptError(std::to_string(wrong) + " bytes are not version " + std::to_string(version) + "'s after " + after);
  }

  // Between pre-flight and the pause every element that changes gets another value: apply meets it everywhere, and must leave
  // it as it is. Version 0 is served before and after.
  Status RefuseForeignWrites(const ServedProcess& server, FormulaMemory& memory) {
    XORBIT_ASSIGN_OR_RETURN(const Json session, Prepare(server, 1));
    XORBIT_RETURN_IF_ERROR(memory.Fill(/*changed=*/true));
    XORBIT_ASSIGN_OR_RETURN(const Json refusal, server.Post("/apply_gpu_delta", session, 409));
    XORBIT_RETURN_IF_ERROR(ExpectVersion(memory, 1, "a refused apply"));
    const Json& participant = refusal["participants"][0];
    if (participant["state"] != "FAILED" || participant["applied_version"] != 0) return CorruptError(refusal.dump());
    Note("refused in the pause", participant["result"].get<std::string>());
    return memory.Fill(/*changed=*/false);
  }

  // Decode steps of this process, alone, and while the server fetches, prepares and gives back one update after the other.
  Status MeasureSteps(const ServedProcess& server, const FormulaMemory& memory, int next_version) {
    XORBIT_ASSIGN_OR_RETURN(const auto decode, cuda::testing::DecodeLoop::Make(memory.bytes().data(), model_.byte_count, {}));
    const auto enough = [&](uint64_t count) { return count >= options_.steps; };
    XORBIT_ASSIGN_OR_RETURN(const std::vector<double> alone, decode.Run(enough));
    PrintSteps("nothing", alone);
    std::atomic<bool> is_over = false;
    int prepared_count = 0;
    std::vector<double> beside;
    const auto decode_on = [&]() -> Status {
      Result<std::vector<double>> times = decode.Run(enough);
      is_over = true;
      XORBIT_ASSIGN_OR_RETURN(beside, std::move(times));
      return {};
    };
    const auto prepare_on = [&]() -> Status {
      while (!is_over) {
        const Stopwatch watch;
        XORBIT_ASSIGN_OR_RETURN(const Json session, Prepare(server, next_version));
        XORBIT_RETURN_IF_ERROR(server.Post("/abort_gpu_delta", session).status());
        ++prepared_count;
        while (!is_over && watch.seconds() < options_.every_s) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      return {};
    };
    XORBIT_RETURN_IF_ERROR(ParallelFor(2, 2, [&](uint64_t index) { return index == 0 ? decode_on() : prepare_on(); }));
    PrintSteps("fetch and prepare", beside);
    XORBIT_ASSIGN_OR_RETURN(const std::vector<double> again, decode.Run(enough));
    PrintSteps("nothing again", again);
    Note("updates prepared beside the steps", std::to_string(prepared_count));
    return {};
  }

  static void PrintSteps(const char* beside, const std::vector<double>& times) {
    std::printf("steps,%s,%zu,%.3f,%.3f,%.3f,%.3f\n", beside, times.size(), Percentile(times, 0.5), Percentile(times, 0.9),
                Percentile(times, 0.99), Percentile(times, 1));
    (void)std::fflush(stdout);
  }

  Status Own() {
    const fs::path checkpoint = options_.folder / "zeros.safetensors";
    XORBIT_RETURN_IF_ERROR(WriteZeros(checkpoint));
    const Stopwatch watch;
    XORBIT_ASSIGN_OR_RETURN(const auto server, ServedProcess::Start(options_.xorbit, {checkpoint, "--store", store_root_}));
    Note("seconds to load", std::to_string(watch.seconds()));
    PauseTable pauses("own");
    for (int i = 1; i <= options_.updates; ++i) {
      XORBIT_RETURN_IF_ERROR(UpdateTo(*server, i % 2, &pauses));
      XORBIT_ASSIGN_OR_RETURN(const Json checked, server->Post("/weights_checker", {{"action", "checksum"}}));
      if (checked["weight_version"] != std::to_string(i % 2)) return CorruptError(checked.dump());
    }
    Note("own", "the digest of all memory is the stream's after each update");
    pauses.Print(model_.byte_count, change_count_);
    return {};
  }

  // A checkpoint of holes.
  Status WriteZeros(const fs::path& path) const {
    SafetensorsHeaderSpec spec;
    uint64_t at = 0;
    for (const TensorSpec& tensor : model_.layout.tensors()) {
      spec.entries.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
      at += tensor.byte_count;
    }
    XORBIT_ASSIGN_OR_RETURN(const Buffer header, BuildSafetensorsHeader(spec));
    XORBIT_ASSIGN_OR_RETURN(const UniqueFd fd, PosixFileOps().Create(path, /*exclusive=*/true));
    XORBIT_RETURN_IF_ERROR(PosixFileOps().Pwrite(fd, header, 0));
    return PosixFileOps().Truncate(fd, header.size() + at);
  }

  // A session, prepared; its name is what the next calls about it send.
  Result<Json> Prepare(const ServedProcess& server, int target) {
    const Json session = {{"session_id", "s" + std::to_string(++session_count_)}};
    Json order = session;
    order["target_version"] = target;
    XORBIT_RETURN_IF_ERROR(server.Post("/prepare_gpu_delta", order).status());
    Json receipt;
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      XORBIT_ASSIGN_OR_RETURN(const Json status, server.Post("/get_gpu_delta_status", session));
      receipt = status["participants"][0];
    } while (receipt["state"] == "PREPARING");
    if (receipt["state"] != "PREPARED") return RefusedError(receipt.dump());
    change_count_ = receipt["change_count"];
    return session;
  }

  Status UpdateTo(const ServedProcess& server, int target, PauseTable* pauses) {
    XORBIT_ASSIGN_OR_RETURN(const Json session, Prepare(server, target));
    XORBIT_ASSIGN_OR_RETURN(const auto phases_before, server.PhaseMs());
    const Stopwatch watch;
    XORBIT_RETURN_IF_ERROR(server.Post("/apply_gpu_delta", session).status());
    const double apply_ms = watch.seconds() * 1e3;
    XORBIT_ASSIGN_OR_RETURN(const Json resumed, server.Post("/resume_gpu_delta", session));
    pauses->Add("driver", watch.seconds() * 1e3);
    const Json& timing = resumed["participants"][0]["scheduler_timing"];
    const auto between = [&](const char* begin, const char* end) {
      return static_cast<double>(timing[end].get<int64_t>() - timing[begin].get<int64_t>()) * 1e-6;
    };
    pauses->Add("server", between("pause_started_ns", "resumed_ns"));
    pauses->Add("server until applied", between("pause_started_ns", "applied_ns"));
    pauses->Add("driver until the reply of apply", apply_ms);
    XORBIT_ASSIGN_OR_RETURN(const auto phases, server.PhaseMs());
    for (const auto& [phase, ms] : phases) pauses->Add("phase " + phase, ms - phases_before.at(phase));
    return {};
  }

  Options options_;
  cuda::testing::BigModel model_;
  fs::path store_root_;
  int session_count_ = 0;
  uint64_t change_count_ = 0;
};

}  // namespace
}  // namespace xorbit

int main(int argc, char** argv) {
  xorbit::Options options;
  CLI::App app("Measures xorbit serve on this machine's GPU, with weights of its own and with attached ones");
  app.add_option("--xorbit", options.xorbit, "the program")->required();
  app.add_option("--folder", options.folder, "an empty folder for store and checkpoint")->required();
  app.add_option("--gigabytes", options.gigabytes, "of weights (100)");
  app.add_option("--updates", options.updates, "of each kind of memory (11)");
  app.add_option("--steps", options.steps, "of decoding, alone and beside preparing (0)");
  app.add_option("--every", options.every_s, "seconds from one update that is prepared to the next (0: without a rest)");
  CLI11_PARSE(app, argc, argv);
  const xorbit::Status status = xorbit::ServeCheck(options).Run();
  if (status.ok()) return 0;
  std::printf("FAILED,%s\n", status.message().c_str());
  return 1;
}
