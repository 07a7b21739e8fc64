// Live memory that a sampler serves from, whoever owns it: this process (HostMemory) or an engine beside it (AttachedMemory).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/status.h"
#include "receive/engine.h"
#include "tensor/live_memory.h"

namespace xorbit {

// Close and Open come from one thread at a time, in turns; everything else from any.
class ServedMemory {
 public:
  ServedMemory() = default;
  ServedMemory(const ServedMemory&) = delete;
  ServedMemory& operator=(const ServedMemory&) = delete;
  virtual ~ServedMemory() = default;

  // Stays where it is as long as the object lives.
  virtual const LiveMemory& live() const = 0;
  // ReceiverOptions::undo_memory, if the memory outlives this process.
  virtual MutableBytes undo_memory() const { return {}; }

  // The gate in front of readers outside this process, if there are any. Close: none reads, and none will before Open. After an
  // error it is as it was before.
  virtual Status Close(Deadline /*deadline*/) { return {}; }
  virtual void Open(uint64_t /*version*/) {}
  // What a former process has left readers outside with. Nothing: they stood still, or nobody was here.
  struct FoundReaders {
    uint64_t version = 0;           // that they were told
    bool has_clean_caches = false;  // what they have cached is of this version
  };
  virtual std::optional<FoundReaders> found() const { return std::nullopt; }
  // For whoever comes next: what readers outside had cached was flushed before the last Open of this version.
  virtual void NoteCleanCaches(uint64_t /*version*/) {}
  // Why nothing can be served from this memory any more, whatever it holds.
  virtual Status Readiness() const { return {}; }
  // Why its bytes must not be touched: who does is ended by the kernel. To be asked before work on them begins, and of no use
  // against an owner who takes memory away while they are read.
  virtual Status CheckReach() const { return {}; }
};

}  // namespace xorbit
