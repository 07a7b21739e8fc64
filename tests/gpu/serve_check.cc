// `xorbit serve` on a GPU of this machine, over loopback: weights that this program holds and exports by CUDA IPC, and weights
// of the server's own, at the reference's size and density. Measures the pause as a driver sees it (from the call of
// /apply_gpu_delta to the reply of /resume_gpu_delta), as the server does, and as an engine in a loop of short steps does.
// Every byte is compared with the formula, or read by the server and compared with the stream's digest.
//
//   xorbit_serve_check --xorbit PATH --folder SCRATCH [--gigabytes 100] [--updates 11]
//
// Output: "pause,<own or attached>,<whose clock>,median ms,least,most,updates,bytes,changes", "note,...", "FAILED,...".
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "backend/cuda/device_memory.h"
#include "backend/cuda/testing/big_model.h"
#include "backend/cuda/testing/formula_memory.h"
#include "base/shared_memory.h"
#include "base/stopwatch.h"
#include "publish/contribution.h"
#include "publish/decide.h"
#include "receive/attachment.h"
#include "receive/engine_gate.h"
#include "tensor/live_map_json.h"
#include "tensor/safetensors.h"
#include "transport/folder_store.h"
#include "transport/http_client.h"

extern char** environ;

namespace xorbit {
namespace {

using cuda::testing::UnsentModel;
using Json = nlohmann::json;

struct Options {
  std::string xorbit;
  fs::path folder;
  double gigabytes = 100;
  int updates = 11;
};

void Note(const std::string& name, const std::string& value) {
  std::printf("note,%s,%s\n", name.c_str(), value.c_str());
  (void)std::fflush(stdout);
}

// A running `xorbit serve`, killed with the object.
class Server {
 public:
  static Result<std::unique_ptr<Server>> Start(const std::string& xorbit, std::vector<std::string> arguments) {
    auto server = std::make_unique<Server>();
    int out[2];
    if (::pipe(out) != 0) return ErrnoError("pipe", errno);
    arguments.insert(arguments.begin(), {xorbit, "serve"});
    arguments.insert(arguments.end(), {"--backend", "cuda", "--json"});
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    ::posix_spawn_file_actions_addclose(&actions, out[0]);
    const int error = ::posix_spawn(&server->pid_, xorbit.c_str(), &actions, nullptr, words.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(out[1]);
    if (error != 0) return ErrnoError("start " + xorbit, error);
    const UniqueFd read_end(out[0]);
    std::string line;
    for (char c = 0; ::read(read_end.get(), &c, 1) == 1 && c != '\n';) line += c;
    const Json announced = Json::parse(line, nullptr, false);
    if (announced.is_discarded()) return RefusedError("the server did not start");
    server->endpoint_ = {"127.0.0.1", announced["port"]};
    return server;
  }
  Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  Result<Json> Post(const std::string& path, const Json& body) {
    HttpCall call;
    call.path = path;
    call.body = body.dump();
    XORBIT_ASSIGN_OR_RETURN(const HttpReply reply,
                            CallHttp(endpoint_, call, std::chrono::steady_clock::now() + std::chrono::seconds(120)));
    if (reply.status != 200) return RefusedError(path + ": " + reply.body);
    return Json::parse(reply.body, nullptr, false);
  }

 private:
  pid_t pid_ = 0;
  HttpEndpoint endpoint_;
};

// Steps of 200 microseconds, behind the gate. The longest time in which it could not begin one.
class Engine {
 public:
  explicit Engine(EngineGate gate) : gate_(gate), thread_([this](const std::stop_token& stop) { Run(stop); }) {}
  double TakeLongestStallMs() { return static_cast<double>(longest_ns_.exchange(0)) * 1e-6; }

 private:
  void Run(const std::stop_token& stop) {
    Stopwatch since_step;
    bool has_begun = false;
    while (!stop.stop_requested()) {
      if (!gate_.TryEnter()) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
        continue;
      }
      const auto stall_ns = static_cast<int64_t>(since_step.seconds() * 1e9);
      if (has_begun && stall_ns > longest_ns_) longest_ns_ = stall_ns;
      has_begun = true;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      gate_.Leave();
      since_step = Stopwatch();
    }
  }

  EngineGate gate_;
  std::atomic<int64_t> longest_ns_{0};
  std::jthread thread_;  // tidy-allow: an engine of its own
};

struct Pauses {
  std::vector<double> driver_ms;
  std::vector<double> server_ms;
  std::vector<double> engine_ms;
};

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
    std::vector<FormulaPiece> pieces;
    for (uint32_t i = 0; i < model_.places.size(); ++i) {
      pieces.push_back({model_.places[i], model_.layout.tensors()[i].byte_count, model_.first_bytes[i]});
    }
    XORBIT_ASSIGN_OR_RETURN(const auto memory, MakeFormulaMemory(0, model_.byte_count, model_.formula, pieces));
    XORBIT_ASSIGN_OR_RETURN(const DeviceMemoryHandle handle, ExportDeviceMemory(memory->bytes()));
    const std::string name = "/xorbit-serve-check-" + std::to_string(::getpid());
    XORBIT_ASSIGN_OR_RETURN(const SharedMemory control, SharedMemory::Create(name, 4096));
    const EngineGate gate = EngineGate::Make(control.bytes().first(sizeof(GateWords)), model_.map.epoch());
    if (!control.TryLock()) return RefusedError("cannot lock " + name);
    Attachment attachment;
    attachment.live_map = "engine.map";
    attachment.segments = {{ExportedSegment::Kind::kSharedMemory, name, "", 4096},
                           {ExportedSegment::Kind::kCudaIpc, handle.handle, handle.device, model_.byte_count}};
    attachment.regions = {{model_.map.regions()[0].name, 1, 0}};
    const std::string map = WriteLiveMapJson(model_.layout, model_.map);
    const std::string text = WriteAttachmentJson(attachment);
    XORBIT_RETURN_IF_ERROR(WriteWholeFile(PosixFileOps(), options_.folder / attachment.live_map, AsBytes(map)));
    XORBIT_RETURN_IF_ERROR(WriteWholeFile(PosixFileOps(), options_.folder / "engine.json", AsBytes(text)));
    const Stopwatch watch;
    XORBIT_ASSIGN_OR_RETURN(const auto server, Server::Start(options_.xorbit, {"--attach", options_.folder / "engine.json",
                                                                               "--store", store_root_}));
    Note("seconds to attach", std::to_string(watch.seconds()));
    Engine engine(gate);
    Pauses pauses;
    for (int i = 1; i <= options_.updates; ++i) {
      XORBIT_RETURN_IF_ERROR(UpdateTo(*server, i % 2, &pauses));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      pauses.engine_ms.push_back(engine.TakeLongestStallMs());
      XORBIT_ASSIGN_OR_RETURN(const uint64_t wrong, memory->CountWrong(i % 2 == 1));
      if (wrong != 0) return CorruptError(std::to_string(wrong) + " bytes are wrong after update " + std::to_string(i));
    }
    Note("attached", "every byte is the formula's after each update");
    Print("attached", pauses);
    return SharedMemory::Remove(name);
  }

  Status Own() {
    const fs::path checkpoint = options_.folder / "zeros.safetensors";
    XORBIT_RETURN_IF_ERROR(WriteZeros(checkpoint));
    const Stopwatch watch;
    XORBIT_ASSIGN_OR_RETURN(const auto server, Server::Start(options_.xorbit, {checkpoint, "--store", store_root_}));
    Note("seconds to load", std::to_string(watch.seconds()));
    Pauses pauses;
    for (int i = 1; i <= options_.updates; ++i) {
      XORBIT_RETURN_IF_ERROR(UpdateTo(*server, i % 2, &pauses));
      XORBIT_ASSIGN_OR_RETURN(const Json checked, server->Post("/weights_checker", {{"action", "checksum"}}));
      if (checked["weight_version"] != std::to_string(i % 2)) return CorruptError(checked.dump());
    }
    Note("own", "the digest of all memory is the stream's after each update");
    Print("own", pauses);
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

  Status UpdateTo(Server& server, int target, Pauses* pauses) {
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
    const Stopwatch watch;
    XORBIT_RETURN_IF_ERROR(server.Post("/apply_gpu_delta", session).status());
    XORBIT_ASSIGN_OR_RETURN(const Json resumed, server.Post("/resume_gpu_delta", session));
    pauses->driver_ms.push_back(watch.seconds() * 1e3);
    pauses->server_ms.push_back(resumed["participants"][0]["scheduler_timing"]["blocked_s"].get<double>() * 1e3);
    return {};
  }

  void Print(const char* memory, const Pauses& pauses) const {
    const auto print = [&](const char* clock, std::vector<double> values) {
      if (values.empty()) return;
      std::ranges::sort(values);
      std::printf("pause,%s,%s,%.3f,%.3f,%.3f,%zu,%llu,%llu\n", memory, clock, values[values.size() / 2], values.front(),
                  values.back(), values.size(), static_cast<unsigned long long>(model_.byte_count),
                  static_cast<unsigned long long>(change_count_));
    };
    print("driver", pauses.driver_ms);
    print("server", pauses.server_ms);
    print("engine", pauses.engine_ms);
    (void)std::fflush(stdout);
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
  CLI11_PARSE(app, argc, argv);
  const xorbit::Status status = xorbit::ServeCheck(options).Run();
  if (status.ok()) return 0;
  std::printf("FAILED,%s\n", status.message().c_str());
  return 1;
}
