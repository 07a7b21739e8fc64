#include "server/served_sampler.h"

#include <chrono>

#include "base/parallel.h"
#include "server/sampler_memory.h"

namespace xorbit {
namespace {

constexpr std::chrono::milliseconds kEnginePauseLimit{10'000};  // a step of a large model, or requests that are waited for

// Beside an engine in another process each slice of ours costs a switch of the device there and back, so a few longer ones take
// less from it than many short ones.
constexpr uint32_t kAttachedSliceMicroseconds = 1'000;

}  // namespace

Result<std::unique_ptr<ServedSampler>> ServedSampler::Start(const Runtime& runtime, ObjectStore& store,
                                                            const ServeRequest& request) {
  if (request.engine && request.attachment.empty()) {
    return UsageError("an engine's server is paused for the weights that the engine exports: say which with --attach");
  }
  XORBIT_ASSIGN_OR_RETURN(Stream stream, Stream::Open(store, request.stream_id));
  // Before an engine is touched: it must not be paused for a server that cannot be.
  XORBIT_ASSIGN_OR_RETURN(HttpFront front, HttpFront::Listen(request));
  std::unique_ptr<ServedSampler> served(new ServedSampler(std::move(stream), std::move(front)));  // tidy-allow: private
  Stream& own = served->stream_;
  const bool is_attached = !request.attachment.empty();
  XORBIT_ASSIGN_OR_RETURN(SamplerMemory found, is_attached
                                                   ? AttachMemory(runtime, own, request.attachment, request.device.has_value())
                                                   : LoadOwnMemory(runtime, own, request.checkpoint, request.device));
  served->advice_ = found.advice;
  if (request.start_up_bytes > 0) XORBIT_RETURN_IF_ERROR(BringToNewest(runtime, own, request.start_up_bytes, &found));
  ReceiverOptions options;
  options.threads = runtime.threads;
  if (is_attached) options.throttle.slice_microseconds = kAttachedSliceMicroseconds;
  SessionOptions session;
  if (request.engine) {
    auto engine = std::make_unique<EngineMemory>(std::move(found.memory), *request.engine);
    session.engine = engine.get();
    session.gate_deadline = options.pause_deadline = kEnginePauseLimit;
    found.memory = std::move(engine);
  }
  XORBIT_ASSIGN_OR_RETURN(served->sampler_, GatedSampler::Start(own, *runtime.backend, std::move(found.memory), found.version,
                                                                *served->member_, options));
  session.engine_id = request.engine_id;
  session.checkpoint = (is_attached ? request.attachment : request.checkpoint).string();
  session.memory = is_attached ? "attached" : "own";
  session.backend = request.device ? "cuda" : "cpu";
  session.store_root = request.store_root;
  session.threads = runtime.threads;
  session.follows = request.follows;
  session.host_fetched = request.host_fetched;
  XORBIT_ASSIGN_OR_RETURN(served->session_, SamplerSession::Make(own, *served->sampler_, *runtime.backend, session));
  return served;
}

Status ServedSampler::Run() {
  const Status ran = ParallelFor(2, 2, [&](uint64_t index) -> Status {
    if (index == 0) {
      session_->Run(stop_.get_token());
      return {};
    }
    const Status status = front_.Run(*session_);
    stop_.request_stop();  // also if the server has failed
    return status;
  });
  standstill_ = session_->Finish();
  return ran;
}

void ServedSampler::Stop() {
  front_.Stop();
  stop_.request_stop();
}

}  // namespace xorbit
