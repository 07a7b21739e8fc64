// The engine's side of attached memory, for engines in C++: weights in shared memory, with the gate and the undo memory that
// whoever updates them needs, and the files that tell where they are.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/shared_memory.h"
#include "receive/attachment.h"
#include "receive/engine_gate.h"
#include "tensor/layout.h"
#include "tensor/live_memory.h"

namespace xorbit {

struct ExportOptions {
  std::string name;         // of the shared memory, e.g. /engine-0; what a former life of this engine has left there is removed
  fs::path attachment;      // the file to write; the live map goes beside it
  uint64_t undo_bytes = 0;  // old and new values of an update; 0: a quarter of the weights, at least a MiB
};

// Removed with the object: whoever has attached then learns that the engine has ended.
class ExportedMemory {
 public:
  // Memory for every region and kept copy of the map, all zero, and its gate, closed. kRefused if another process that lives
  // has exported memory of this name.
  static Result<std::unique_ptr<ExportedMemory>> Make(const Layout& layout, LiveMap map, const ExportOptions& options);
  ~ExportedMemory();
  ExportedMemory(const ExportedMemory&) = delete;
  ExportedMemory& operator=(const ExportedMemory&) = delete;

  // To be loaded with weights before Publish, and read behind the gate alone after it.
  const LiveMemory& live() const { return live_; }
  const EngineGate& gate() const { return *gate_; }
  // Writes the attachment, whole or not at all: from now on others may attach, and open the gate.
  Status Publish(const Layout& layout) const;

 private:
  explicit ExportedMemory(LiveMap map, const ExportOptions& options) : options_(options), map_(std::move(map)) {}

  ExportOptions options_;
  LiveMap map_;
  Attachment attachment_;
  SharedMemory segment_;
  std::optional<EngineGate> gate_;
  std::vector<MutableBytes> regions_;
  std::vector<MutableBytes> kept_;
  LiveMemory live_;
};

}  // namespace xorbit
