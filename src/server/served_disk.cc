#include "server/served_disk.h"

#include "base/stopwatch.h"
#include "server/disk_routes.h"
#include "server/reply.h"
#include "server/request_log.h"

namespace xorbit {

Result<std::unique_ptr<ServedDisk>> ServedDisk::Start(const Runtime& runtime, ObjectStore& store, const ServeRequest& request,
                                                      const DiskSamplerOptions& options) {
  XORBIT_RETURN_IF_ERROR(CheckListener(request));
  XORBIT_ASSIGN_OR_RETURN(auto sampler, DiskSampler::Open(runtime, store, options));
  std::unique_ptr<ServedDisk> served(new ServedDisk(request, std::move(sampler)));  // tidy-allow: private
  XORBIT_ASSIGN_OR_RETURN(served->server_, HttpServer::Listen(request.address, request.port, request.http));
  return served;
}

HttpReply ServedDisk::Answer(const HttpRequest& request) {
  const Stopwatch watch;
  HttpReply reply = Dispatch(*sampler_, access_, limit_, request);
  if (log_) {
    log_(RequestLogLine(sampler_->options().engine_id, request, reply.status, watch.seconds(), sampler_->version()));
  }
  return reply;
}

Status ServedDisk::Run() {
  return server_->Run([this](const HttpRequest& request) { return Answer(request); },
                      [](int status, const std::string& why) { return FailureReply(status, why); });
}

}  // namespace xorbit
