#include "journey/gated_sampler.h"

namespace xorbit {

Result<std::unique_ptr<GatedSampler>> GatedSampler::Start(Stream& stream, const Backend& backend,
                                                          std::unique_ptr<ServedMemory> memory, uint64_t version,
                                                          CohortMember& cohort, const ReceiverOptions& options) {
  XORBIT_RETURN_IF_ERROR(memory->Close(std::chrono::steady_clock::now() + options.pause_deadline));
  std::unique_ptr<GatedSampler> sampler(new GatedSampler(std::move(memory)));  // tidy-allow: private
  ReceiverOptions receiving = options;
  receiving.undo_memory = sampler->memory_->undo_memory();
  XORBIT_ASSIGN_OR_RETURN(sampler->receiver_,
                          Receiver::Attach(stream, backend, sampler->memory_->live(), *sampler, cohort, receiving, version));
  return sampler;
}

uint64_t GatedSampler::Enter() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !is_closed(); });
  ++reader_count_;
  return served_version_;
}

std::optional<uint64_t> GatedSampler::TryEnter() {
  const std::lock_guard lock(mutex_);
  if (is_closed()) return std::nullopt;
  ++reader_count_;
  return served_version_;
}

void GatedSampler::Leave() {
  const std::lock_guard lock(mutex_);
  if (--reader_count_ == 0) changed_.notify_all();
}

// Whoever calls has order_mutex_, and has made is_closed() true. After an error readers outside are let in as before.
Status GatedSampler::CloseFor(Deadline deadline) {
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, deadline, [&] { return reader_count_ == 0; })) {
      return RefusedError("readers did not leave the weights in time");
    }
  }
  if (outside_is_closed_) return {};
  XORBIT_RETURN_IF_ERROR(memory_->Close(deadline));
  outside_is_closed_ = true;
  return {};
}

Status GatedSampler::Hold(Deadline deadline) {
  const std::lock_guard order(order_mutex_);
  {
    const std::lock_guard lock(mutex_);
    ++hold_count_;
  }
  Status closed = CloseFor(deadline);
  if (!closed.ok()) LetGo([this] { --hold_count_; });
  return closed;
}

void GatedSampler::Release() {
  const std::lock_guard order(order_mutex_);
  LetGo([this] { --hold_count_; });
}

Status GatedSampler::Pause(Deadline deadline) {
  const std::lock_guard order(order_mutex_);
  {
    const std::lock_guard lock(mutex_);
    stands_ = true;
  }
  return CloseFor(deadline);
}

Status GatedSampler::Refresh(const std::vector<std::string>& callbacks, Deadline /*deadline*/) {
  if (callbacks.empty()) return {};
  return UnsupportedError("this sampler derives nothing from its weights, and cannot run '" + callbacks.front() + "'");
}

Status GatedSampler::Resume(uint64_t version, Deadline /*deadline*/) {
  const std::lock_guard order(order_mutex_);
  LetGo([&] {
    served_version_ = version;
    stands_ = false;
  });
  return {};
}

}  // namespace xorbit
