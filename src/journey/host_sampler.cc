#include "journey/host_sampler.h"

namespace xorbit {

Result<std::unique_ptr<HostSampler>> HostSampler::Start(Stream& stream, const Backend& backend, LiveMap map,
                                                        std::span<const ConstBytes> tensors, uint64_t version,
                                                        CohortMember& cohort, const ReceiverOptions& options) {
  std::unique_ptr<HostSampler> sampler(new HostSampler(stream.layout(), std::move(map)));  // tidy-allow: private
  sampler->memory_.Load(tensors);
  XORBIT_ASSIGN_OR_RETURN(sampler->receiver_,
                          Receiver::Attach(stream, backend, sampler->memory_.memory(), *sampler, cohort, options, version));
  return sampler;
}

uint64_t HostSampler::Enter() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !is_closed(); });
  ++reader_count_;
  return served_version_;
}

std::optional<uint64_t> HostSampler::TryEnter() {
  const std::lock_guard lock(mutex_);
  if (is_closed()) return std::nullopt;
  ++reader_count_;
  return served_version_;
}

void HostSampler::Leave() {
  const std::lock_guard lock(mutex_);
  if (--reader_count_ == 0) changed_.notify_all();
}

Status HostSampler::Hold(Deadline deadline) {
  std::unique_lock lock(mutex_);
  ++hold_count_;
  if (changed_.wait_until(lock, deadline, [&] { return reader_count_ == 0; })) return {};
  --hold_count_;
  changed_.notify_all();
  return RefusedError("readers did not leave the weights in time");
}

void HostSampler::Release() {
  const std::lock_guard lock(mutex_);
  --hold_count_;
  changed_.notify_all();
}

Status HostSampler::Pause(Deadline deadline) {
  std::unique_lock lock(mutex_);
  stands_ = true;
  if (changed_.wait_until(lock, deadline, [&] { return reader_count_ == 0; })) return {};
  return RefusedError("readers did not leave the weights in time");
}

Status HostSampler::Refresh(const std::vector<std::string>& callbacks, Deadline /*deadline*/) {
  if (callbacks.empty()) return {};
  return UnsupportedError("this sampler derives nothing from its weights, and cannot run '" + callbacks.front() + "'");
}

Status HostSampler::Resume(uint64_t version, Deadline /*deadline*/) {
  const std::lock_guard lock(mutex_);
  served_version_ = version;
  stands_ = false;
  changed_.notify_all();
  return {};
}

}  // namespace xorbit
