// A sampler in this process: weights in host memory, laid out by any live map, an engine with a gate in front of them, and the
// receiver that keeps them current.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "receive/host_memory.h"
#include "receive/receiver.h"

namespace xorbit {

// Read(), TryRead(), Hold() and Release() from any thread; everything else from one.
class HostSampler final : public Engine {
 public:
  // Loads `tensors` (layout order), which must be version `version` of the stream, proves that they are, and serves. All
  // arguments outlive the sampler, but for the tensors.
  static Result<std::unique_ptr<HostSampler>> Start(Stream& stream, const Backend& backend, LiveMap map,
                                                    std::span<const ConstBytes> tensors, uint64_t version, CohortMember& cohort,
                                                    const ReceiverOptions& options);

  Receiver& receiver() { return *receiver_; }
  // Whether every live bit is what these canonical tensors make of it. Not while an update is applied.
  bool Holds(std::span<const ConstBytes> tensors) const { return memory_.Holds(tensors); }

  // Calls `read` with the served version and memory, behind the gate: no update is applied meanwhile.
  template <typename Body>
  void Read(Body&& read) {
    const uint64_t version = Enter();
    read(version, memory_.memory());
    Leave();
  }

  // The same, or nothing and false while the gate is closed.
  template <typename Body>
  bool TryRead(Body&& read) {
    const std::optional<uint64_t> version = TryEnter();
    if (!version) return false;
    read(*version, memory_.memory());
    Leave();
    return true;
  }

  // Keeps the gate closed whatever the receiver does, until as many calls of Release: no reader is behind it once this has
  // returned. After an error there is nothing to release.
  Status Hold(Deadline deadline);
  void Release();

  Status Pause(Deadline deadline) override;
  Status Refresh(const std::vector<std::string>& callbacks, Deadline deadline) override;
  Status Resume(uint64_t version, Deadline deadline) override;

 private:
  HostSampler(const Layout& layout, LiveMap map) : memory_(layout, std::move(map)) {}
  bool is_closed() const { return stands_ || hold_count_ > 0; }  // mutex_ is held
  uint64_t Enter();
  std::optional<uint64_t> TryEnter();
  void Leave();

  HostMemory memory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stands_ = true;         // guarded by mutex_, as are the next three: the receiver keeps the gate closed
  uint64_t hold_count_ = 0;    // so do callers of Hold
  uint64_t reader_count_ = 0;  // behind the gate
  uint64_t served_version_ = 0;
  std::unique_ptr<Receiver> receiver_;
};

}  // namespace xorbit
