// Live memory that an engine in another process owns and this one only attaches: found by the engine's attachment file, written
// behind the gate that both share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/device_memory.h"
#include "base/file.h"
#include "base/shared_memory.h"
#include "receive/attachment.h"
#include "receive/engine_gate.h"
#include "receive/served_memory.h"
#include "tensor/layout.h"

namespace xorbit {

class AttachedMemory final : public ServedMemory {
 public:
  // Maps everything that the attachment at `path` names, for memory of `layout`. Neither weights nor gate are touched. An error
  // says in one line what the engine has to do: kNotFound if a segment is gone, kRefused if it is too small or read-only, a
  // region has no place in it, the engine has ended or has moved its weights, or somebody else has attached to any of the
  // segments, by whatever attachment.
  static Result<std::unique_ptr<AttachedMemory>> Attach(const fs::path& path, const Layout& layout);

  const LiveMemory& live() const override { return live_; }
  // Whether the weights lie on a device. Then there is no undo memory.
  bool on_device() const { return on_device_; }
  // What is slower than the engine could have it, in one line with what it has to do (SmallPagesAdvice). Empty: nothing.
  std::string advice() const;
  MutableBytes undo_memory() const override { return undo_memory_; }
  Status Close(Deadline deadline) override;
  void Open(uint64_t version) override;
  std::optional<FoundReaders> found() const override { return found_; }
  void NoteCleanCaches(uint64_t version) override { gate_->NoteClean(version); }
  Status Readiness() const override;
  Status CheckReach() const override;

 private:
  struct Segment {
    SharedMemory shared;                   // or
    std::unique_ptr<DeviceMemory> device;  // this one
    MutableBytes bytes() const { return device != nullptr ? device->bytes() : shared.bytes(); }
  };

  AttachedMemory() = default;
  Status OpenSegments(const Attachment& attachment);
  Status ClaimSegments(const Attachment& attachment) const;
  Status OpenGate(const Attachment& attachment);
  Status OpenUndoMemory(const Attachment& attachment);
  Result<MutableBytes> BytesAt(const Attachment& attachment, const ExportedPlace& place, uint64_t byte_count) const;
  Status Place(const Attachment& attachment, const Layout& layout);
  Status CheckApart() const;

  std::vector<Segment> segments_;  // claimed
  bool on_device_ = false;
  uint32_t gate_segment_ = 0;
  MutableBytes gate_words_;
  std::optional<EngineGate> gate_;
  std::optional<FoundReaders> found_;
  std::optional<uint64_t> opened_;  // the version that readers were told last
  MutableBytes undo_memory_;
  LiveMap map_;
  std::vector<MutableBytes> regions_;
  std::vector<MutableBytes> kept_;
  LiveMemory live_;
};

}  // namespace xorbit
