#include "server/served_disk.h"

#include "base/parallel.h"
#include "base/stopwatch.h"
#include "server/disk_routes.h"
#include "server/reply.h"
#include "server/request_log.h"

namespace xorbit {

Result<std::unique_ptr<ServedDisk>> ServedDisk::Start(const Runtime& runtime, ObjectStore& store, const ServeRequest& request,
                                                      const DiskSamplerOptions& options) {
  XORBIT_RETURN_IF_ERROR(CheckListener(request));
  std::unique_ptr<ServedDisk> served(new ServedDisk(request));  // tidy-allow: private
  // First, for it may fail, and the engine is not to be made to load for nothing.
  XORBIT_ASSIGN_OR_RETURN(served->server_, HttpServer::Listen(request.address, request.port, request.http));
  XORBIT_ASSIGN_OR_RETURN(served->sampler_, DiskSampler::Open(runtime, store, options));
  return served;
}

HttpReply ServedDisk::Answer(const HttpRequest& request) {
  const Stopwatch watch;
  HttpReply reply = Dispatch(*sampler_, access_, limit_, request);
  sampler_->replies().NoteReply(reply.status, reply.body.find(kVersionNotReady) != std::string::npos);
  if (log_) {
    log_(RequestLogLine(sampler_->options().engine_id, request, reply.status, watch.seconds(), sampler_->version()));
  }
  return reply;
}

Status ServedDisk::Run() {
  const bool follows = sampler_->options().follows;
  return ParallelFor(follows ? 2 : 1, follows ? 2 : 1, [&](uint64_t index) -> Status {
    if (index == 1) {
      sampler_->Follow(stop_.get_token());
      return {};
    }
    const Status status = server_->Run([this](const HttpRequest& request) { return Answer(request); },
                                       [this](int code, const std::string& why) {
                                         sampler_->replies().NoteReply(code, false);
                                         return FailureReply(code, why);
                                       });
    stop_.request_stop();  // also if the server has failed
    return status;
  });
}

void ServedDisk::Stop() {
  server_->Stop();
  stop_.request_stop();
}

}  // namespace xorbit
