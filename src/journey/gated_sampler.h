// A sampler: weights in somebody's memory, laid out by any live map, the gate in front of whoever reads them, in this process
// and outside, and the receiver that keeps them current.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "receive/receiver.h"
#include "receive/served_memory.h"

namespace xorbit {

// Read(), TryRead(), Hold() and Release() from any thread; everything else from one.
class GatedSampler final : public Engine {
 public:
  // Proves that memory holds version `version` of the stream, or what its undo memory says, and serves. Undo memory is the
  // memory's, not that of `options`. All arguments outlive the sampler.
  static Result<std::unique_ptr<GatedSampler>> Start(Stream& stream, const Backend& backend,
                                                     std::unique_ptr<ServedMemory> memory, uint64_t version,
                                                     CohortMember& cohort, const ReceiverOptions& options);

  Receiver& receiver() { return *receiver_; }
  const ServedMemory& memory() const { return *memory_; }

  // Calls `read` with the served version and memory, behind the gate: no update is applied meanwhile.
  template <typename Body>
  void Read(Body&& read) {
    const uint64_t version = Enter();
    read(version, memory_->live());
    Leave();
  }

  // The same, or nothing and false while the gate is closed.
  template <typename Body>
  bool TryRead(Body&& read) {
    const std::optional<uint64_t> version = TryEnter();
    if (!version) return false;
    read(*version, memory_->live());
    Leave();
    return true;
  }

  // Keeps the gate closed whatever the receiver does, until as many calls of Release: no reader, here or outside, is behind it
  // once this has returned. After an error there is nothing to release.
  Status Hold(Deadline deadline);
  void Release();

  Status CheckReach() const override { return memory_->CheckReach(); }
  Status Pause(Deadline deadline) override;
  Status Refresh(const std::vector<std::string>& callbacks, Deadline deadline) override;
  Status Resume(uint64_t version, Deadline deadline) override;

 private:
  explicit GatedSampler(std::unique_ptr<ServedMemory> memory) : memory_(std::move(memory)) {}
  bool is_closed() const { return stands_ || hold_count_ > 0; }  // mutex_ is held
  Status CloseFor(Deadline deadline);
  // Whoever calls has order_mutex_. Does `let_go` under mutex_, and lets readers in if nothing keeps the gate closed any more:
  // those of this process before those outside, for an engine's server may take seconds.
  template <typename Body>
  void LetGo(Body&& let_go) {
    uint64_t version = 0;
    {
      const std::lock_guard lock(mutex_);
      let_go();
      if (is_closed()) return;
      version = served_version_;
      changed_.notify_all();
    }
    if (outside_is_closed_) memory_->Open(version);
    outside_is_closed_ = false;
  }
  uint64_t Enter();
  std::optional<uint64_t> TryEnter();
  void Leave();

  std::unique_ptr<ServedMemory> memory_;
  std::mutex order_mutex_;         // one closing or opening at a time; locked before mutex_
  bool outside_is_closed_ = true;  // guarded by order_mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stands_ = true;         // guarded by mutex_, as are the next three: the receiver keeps the gate closed
  uint64_t hold_count_ = 0;    // so do callers of Hold
  uint64_t reader_count_ = 0;  // behind the gate
  uint64_t served_version_ = 0;
  std::unique_ptr<Receiver> receiver_;
};

}  // namespace xorbit
