#include "receive/exported_memory.h"

#include <algorithm>

#include "base/text.h"
#include "tensor/live_map_json.h"

namespace xorbit {
namespace {

constexpr uint64_t kAlignment = 256;
constexpr uint64_t kGateRoom = 4096;  // a page of its own, so that weights can be protected alone
constexpr uint64_t kLeastUndoBytes = 1 << 20;

// Gives out stretches of one segment, one after the other.
class Places {
 public:
  ExportedPlace Take(std::string name, uint64_t byte_count) {
    const ExportedPlace place{std::move(name), 0, next_};
    next_ += (byte_count + kAlignment - 1) / kAlignment * kAlignment;
    return place;
  }
  uint64_t taken_bytes() const { return next_; }

 private:
  uint64_t next_ = 0;
};

Status RemoveLeft(const std::string& name) {
  const Result<SharedMemory> left = SharedMemory::Open(name);
  if (left.ok() && !left->TryLock()) {
    return RefusedError("a living process has exported " + Quoted(name) + ": choose another name");
  }
  return SharedMemory::Remove(name);
}

// The file appears whole, in place of an older one.
Status WriteInPlace(const fs::path& path, const std::string& text) {
  FileOps& ops = PosixFileOps();
  fs::path pending = path;
  pending += ".pending";
  static_cast<void>(ops.Unlink(pending));  // of a former life
  XORBIT_RETURN_IF_ERROR(WriteWholeFile(ops, pending, AsBytes(text)));
  return ops.Rename(pending, path);
}

}  // namespace

Result<std::unique_ptr<ExportedMemory>> ExportedMemory::Make(const Layout& layout, LiveMap map, const ExportOptions& options) {
  XORBIT_RETURN_IF_ERROR(RemoveLeft(options.name));
  std::unique_ptr<ExportedMemory> memory(new ExportedMemory(std::move(map), options));  // tidy-allow: private
  Attachment& attachment = memory->attachment_;
  Places places;
  attachment.gate = places.Take({}, kGateRoom);
  for (const LiveRegion& region : memory->map_.regions()) {
    attachment.regions.push_back(places.Take(region.name, region.byte_count));
  }
  for (const uint32_t tensor_index : memory->map_.kept_tensors()) {
    const TensorSpec& tensor = layout.tensors()[tensor_index];
    attachment.kept.push_back(places.Take(tensor.name, tensor.byte_count));
  }
  attachment.undo_bytes = options.undo_bytes;
  if (attachment.undo_bytes == 0) attachment.undo_bytes = std::max(kLeastUndoBytes, places.taken_bytes() / 4);
  attachment.undo = places.Take({}, attachment.undo_bytes);
  attachment.segments = {{ExportedSegment::Kind::kSharedMemory, options.name, {}, places.taken_bytes()}};
  XORBIT_ASSIGN_OR_RETURN(memory->segment_, SharedMemory::Create(options.name, places.taken_bytes()));
  const MutableBytes bytes = memory->segment_.bytes();
  for (size_t i = 0; i < attachment.regions.size(); ++i) {
    memory->regions_.push_back(bytes.subspan(attachment.regions[i].offset_bytes, memory->map_.regions()[i].byte_count));
  }
  for (size_t i = 0; i < attachment.kept.size(); ++i) {
    const TensorSpec& tensor = layout.tensors()[memory->map_.kept_tensors()[i]];
    memory->kept_.push_back(bytes.subspan(attachment.kept[i].offset_bytes, tensor.byte_count));
  }
  memory->live_ = {&memory->map_, memory->regions_, memory->kept_};
  memory->gate_ = EngineGate::Make(bytes.subspan(attachment.gate.offset_bytes, sizeof(GateWords)), memory->map_.epoch());
  if (!memory->segment_.TryLock()) return RefusedError("another process has locked " + Quoted(options.name));
  return memory;
}

ExportedMemory::~ExportedMemory() {
  if (segment_.bytes().empty()) return;
  static_cast<void>(SharedMemory::Remove(options_.name));  // what stays is removed by the next life
}

Status ExportedMemory::Publish(const Layout& layout) const {
  Attachment attachment = attachment_;
  attachment.live_map = options_.attachment.filename().string() + ".map";
  XORBIT_RETURN_IF_ERROR(WriteInPlace(options_.attachment.parent_path() / attachment.live_map, WriteLiveMapJson(layout, map_)));
  return WriteInPlace(options_.attachment, WriteAttachmentJson(attachment));
}

}  // namespace xorbit
