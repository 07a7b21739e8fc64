// xorbit serve (CHECKPOINT | --attach FILE | --disk CHECKPOINT) --store STORE [--port N] [--stream S] [--follow]
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#include "backend/cuda/cuda_backend.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/line_log.h"
#include "cli/stop_watcher.h"
#include "cli/store_options.h"
#include "cli/token_file.h"
#include "server/served_disk.h"
#include "server/served_sampler.h"

namespace xorbit {
namespace {

struct ServeOptions {
  StoreOptions store;
  HostCacheChoice host_cache;
  std::string admin_token_file;
  std::string read_token_file;
  std::string engine;
  std::string engine_url;
  std::string engine_token_file;
  std::string kv_policy;  // empty: flush
  bool log = false;
  std::string backend = "cpu";
  int device = 0;
  std::string disk;
  ServeRequest request;
};

// What waits for this command to be ready reads it, so it must not wait in a buffer.
Status Announce(uint16_t port, const ServeRequest& request, uint64_t version, const std::string& stream, bool json) {
  const std::string url = fmt::format("http://{}:{}", request.address, port);
  const Json fields = {{"serving", url}, {"port", port}, {"stream", stream}, {"version", version}};
  const std::string line = json ? fields.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"
                                : fmt::format("serving version {} of {} on {}\n", version, stream, url);
  if (std::fputs(line.c_str(), stdout) < 0 || std::fflush(stdout) != 0) return IoError("cannot write to standard output");
  return {};
}

Result<std::optional<EngineLinkOptions>> ReadEngine(const ServeOptions& options) {
  if (options.engine.empty()) return std::optional<EngineLinkOptions>();
  EngineLinkOptions engine;
  XORBIT_ASSIGN_OR_RETURN(engine.kind, ParseEngineKind(options.engine));
  XORBIT_ASSIGN_OR_RETURN(engine.policy, ParseKvPolicy(options.kv_policy.empty() ? "flush" : options.kv_policy));
  XORBIT_RETURN_IF_ERROR(CheckPolicy(engine.kind, engine.policy));
  engine.url = options.engine_url;
  XORBIT_ASSIGN_OR_RETURN(engine.endpoint, ParseHttpEndpoint(options.engine_url));
  XORBIT_ASSIGN_OR_RETURN(engine.token, ReadToken(options.engine_token_file));
  return std::optional(std::move(engine));
}

// A checkpoint on the disk, which an engine that xorbit does not reach into loads itself.
Result<Answer> RunServeDisk(Session& session, const ServeOptions& options, const ServeRequest& request, bool json) {
  if (!request.engine || options.backend != "cpu") {
    return UsageError("--disk needs the --engine and --engine-url that loads the checkpoint, and no --backend");
  }
  if (!options.kv_policy.empty()) {
    return UsageError("--kv is for attached memory: with --disk each update says flush_cache and abort_all_requests");
  }
  DiskSamplerOptions disk;
  disk.engine_id = request.engine_id;
  disk.follows = request.follows;
  disk.source = {options.disk, request.store_root, request.stream_id};
  disk.engine.kind = request.engine->kind;
  disk.engine.url = request.engine->url;
  disk.engine.endpoint = request.engine->endpoint;
  disk.engine.token = request.engine->token;
  XORBIT_ASSIGN_OR_RETURN(const auto near, OpenNearStore(session.runtime(), options.store, options.host_cache));
  XORBIT_ASSIGN_OR_RETURN(const auto served, ServedDisk::Start(session.runtime(), near->store(), request, disk));
  const std::string source = served->sampler().source_name();
  {
    const GracefulStop graceful([&] { served->Stop(); });
    XORBIT_RETURN_IF_ERROR(Announce(served->port(), request, served->sampler().version().value_or(0), source, json));
    XORBIT_RETURN_IF_ERROR(served->Run());
  }
  const std::optional<uint64_t> version = served->sampler().version();
  Answer answer;
  answer.fields = {{"stream", source}, {"version", version ? Json(*version) : Json()}};
  answer.text = version ? fmt::format("stopped at version {} of {}\n", *version, source)
                        : fmt::format("stopped; nobody knows what the engine holds of {}\n", source);
  return answer;
}

void Warn(const std::string& what) { (void)std::fputs(("xorbit: " + Printable(what) + "\n").c_str(), stderr); }

Result<Answer> RunServe(Session& session, const ServeOptions& options, bool json) {
  ServeRequest request = options.request;
  const int given =
      (request.checkpoint.empty() ? 0 : 1) + (request.attachment.empty() ? 0 : 1) + (options.disk.empty() ? 0 : 1);
  if (given != 1) {
    return UsageError(
        "serve needs one of: a CHECKPOINT to load, --attach with the file that an engine exports, --disk with the checkpoint "
        "that an engine loads");
  }
  if (request.start_up_bytes > 0 && request.checkpoint.empty()) {
    return UsageError("--start-newest is for a CHECKPOINT that is loaded: others may read attached weights");
  }
  XORBIT_ASSIGN_OR_RETURN(request.access.admin_token, ReadToken(options.admin_token_file));
  XORBIT_ASSIGN_OR_RETURN(request.access.read_token, ReadToken(options.read_token_file));
  XORBIT_ASSIGN_OR_RETURN(request.engine, ReadEngine(options));
  request.store_root = options.store.store;
  request.stream_id = options.store.stream_id;
  std::optional<LineLog> log;
  if (options.log) request.log = [&lines = log.emplace(STDERR_FILENO)](const std::string& line) { lines.Add(line); };
  if (!options.disk.empty()) return RunServeDisk(session, options, request, json);
  XORBIT_ASSIGN_OR_RETURN(const auto near, OpenNearStore(session.runtime(), options.store, options.host_cache));
  if (near->cache) request.host_fetched = &near->fetched;
  Runtime runtime = session.runtime();
  std::unique_ptr<Backend> cuda_backend;
  if (options.backend == "cuda") {
    XORBIT_ASSIGN_OR_RETURN(cuda_backend, MakeCudaBackend());
    runtime.backend = cuda_backend.get();
    request.device = options.device;
  }
  XORBIT_ASSIGN_OR_RETURN(const auto served, ServedSampler::Start(runtime, near->store(), request));
  const std::string stream = served->session().stream().info().stream_id;
  if (!served->advice().empty()) Warn(served->advice());
  {
    const GracefulStop graceful([&] { served->Stop(); });
    XORBIT_RETURN_IF_ERROR(Announce(served->port(), request, served->session().version(), stream, json));
    XORBIT_RETURN_IF_ERROR(served->Run());
  }
  if (!served->standstill().empty() && !request.attachment.empty()) Warn(served->standstill());
  Answer answer;
  answer.fields = {{"stream", stream}, {"version", served->session().version()}};
  answer.text = fmt::format("stopped at version {} of {}\n", served->session().version(), stream);
  return answer;
}

}  // namespace

void AddServeCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command =
      AddCommand(app, invocation, "serve", "Hold a checkpoint in memory and update it over HTTP, or as the stream goes on",
                 [options, invocation](Session& session) { return RunServe(session, *options, invocation->common.json); });
  ServeRequest& request = options->request;
  command->add_option("CHECKPOINT", request.checkpoint, "Loaded into memory; must be a version of the stream");
  command->add_option(
      "--attach", request.attachment,
      "Instead of a checkpoint: the file by which an engine exports its own weights, in shared memory or by CUDA IPC");
  command->add_option("--disk", options->disk,
                      "Instead: a checkpoint on this host that an engine, named by --engine and --engine-url, loads when it is "
                      "asked; the store may be a folder in which Miles or slime publish");
  command->add_option("--backend", options->backend, "cpu, or cuda for weights on a device (cpu)")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--device", options->device, "With cuda: the device that a checkpoint is loaded onto (0)");
  command->add_option("--store", options->store.store, "A folder, local or on a network file system")->required();
  command->add_option("--stream", options->store.stream_id, "Which stream; may be left out while the store has one");
  AddHostCacheOptions(command, &options->host_cache);
  command->add_option("--port", request.port, "Where to listen; 0: the system chooses, and it is printed (0)");
  command->add_option("--address", request.address, "An IPv4 address of this machine (127.0.0.1)");
  command->add_flag("--follow", request.follows, "Take every new version by itself; updates over HTTP are refused then");
  command->add_option_function<uint64_t>(
      "--start-newest", [options](const uint64_t& megabytes) { options->request.start_up_bytes = megabytes << 20; },
      "First bring the CHECKPOINT to the newest version, with so many megabytes for payloads: a delta of any size, before "
      "anybody reads");
  command->add_option("--engine-id", request.engine_id, "What drivers know this sampler by (host name and process)");
  command
      ->add_option("--admin-token-file", options->admin_token_file,
                   "File with the bearer token of who may change what is served")
      ->check(NotEmpty());
  command->add_option("--read-token-file", options->read_token_file, "File with the bearer token of who may only look")
      ->check(NotEmpty());
  command
      ->add_option("--requests-per-second", request.requests_per_second,
                   "How many requests of each role are answered; 0: all (1000)")
      ->check(NumberBetween(0.0, 1e6));
  CLI::Option* engine = command->add_option("--engine", options->engine,
                                            "sglang or vllm: pause this engine's server around updates of its attached memory");
  CLI::Option* url = command->add_option("--engine-url", options->engine_url, "Where it listens, as http://127.0.0.1:30000");
  engine->needs(url);
  url->needs(engine);
  command->add_option("--engine-token-file", options->engine_token_file, "File with the engine's bearer token")
      ->check(NotEmpty())
      ->needs(engine);
  command
      ->add_option("--kv", options->kv_policy,
                   "What becomes of its requests and cache: flush, abort, retract or keep; see docs/design/serving.md (flush)")
      ->needs(engine);
  command->add_flag("--log", options->log, "A line of JSON on standard error for every request");
}

}  // namespace xorbit
