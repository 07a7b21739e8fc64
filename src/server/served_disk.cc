#include "server/served_disk.h"

#include "base/parallel.h"
#include "server/disk_routes.h"

namespace xorbit {

Result<std::unique_ptr<ServedDisk>> ServedDisk::Start(const Runtime& runtime, ObjectStore& store, const ServeRequest& request,
                                                      const DiskSamplerOptions& options) {
  // First, for it may fail, and the engine is not to be made to load for nothing.
  XORBIT_ASSIGN_OR_RETURN(HttpFront front, HttpFront::Listen(request));
  std::unique_ptr<ServedDisk> served(new ServedDisk(std::move(front)));  // tidy-allow: private
  XORBIT_ASSIGN_OR_RETURN(served->sampler_, DiskSampler::Open(runtime, store, options));
  return served;
}

HttpReply ServedDisk::Answer(const HttpRequest& request) { return front_.Answer(*sampler_, request); }

Status ServedDisk::Run() {
  const bool follows = sampler_->options().follows;
  return ParallelFor(follows ? 2 : 1, follows ? 2 : 1, [&](uint64_t index) -> Status {
    if (index == 1) {
      sampler_->Follow(stop_.get_token());
      return {};
    }
    const Status status = front_.Run(*sampler_);
    stop_.request_stop();  // also if the server has failed
    return status;
  });
}

void ServedDisk::Stop() {
  front_.Stop();
  stop_.request_stop();
}

}  // namespace xorbit
