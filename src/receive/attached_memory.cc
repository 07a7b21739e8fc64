#include "receive/attached_memory.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "backend/undo_memory.h"
#include "base/text.h"
#include "receive/small_pages.h"
#include "tensor/live_map_json.h"

namespace xorbit {
namespace {

constexpr std::chrono::milliseconds kClaimPatience{500};
constexpr std::chrono::milliseconds kClaimPoll{5};

using PlacesByName = std::unordered_map<std::string_view, const ExportedPlace*>;

PlacesByName ByName(const std::vector<ExportedPlace>& places) {
  PlacesByName by_name;
  for (const ExportedPlace& place : places) by_name.emplace(place.name, &place);
  return by_name;
}

Result<Attachment> ReadAttachment(const fs::path& path) {
  XORBIT_ASSIGN_OR_RETURN(const Buffer bytes, ReadWholeFile(path, kMaxAttachmentBytes));
  Result<Attachment> attachment = ParseAttachmentJson(AsText(bytes));
  if (!attachment.ok()) return attachment.status().WithContext(Quoted(path.string()));
  return attachment;
}

Result<LiveMap> ReadLiveMap(const fs::path& path, const Layout& layout) {
  XORBIT_ASSIGN_OR_RETURN(const Buffer bytes, ReadWholeFile(path, kMaxLiveMapBytes));
  Result<LiveMap> map = ParseLiveMapJson(AsText(bytes), layout);
  if (!map.ok()) return map.status().WithContext(Quoted(path.string()));
  return map;
}

Status EngineEnded() {
  return RefusedError("the engine that exported this memory has ended: start it again, then attach to what it exports");
}

Status EngineMoved() { return RefusedError("the engine has moved its weights: attach again to what it exports now"); }

// A process that was killed lets go of what it had claimed a moment after its end has been told.
Status ClaimSoon(const SharedMemory& segment) {
  const Deadline end = std::chrono::steady_clock::now() + kClaimPatience;
  Status claimed = segment.TryClaim();
  while (claimed.code() == Code::kRefused && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kClaimPoll);
    claimed = segment.TryClaim();
  }
  return claimed;
}

}  // namespace

Status AttachedMemory::OpenSegments(const Attachment& attachment) {
  for (const ExportedSegment& exported : attachment.segments) {
    Segment segment;
    if (exported.kind == ExportedSegment::Kind::kCudaIpc) {
      XORBIT_ASSIGN_OR_RETURN(segment.device, OpenDeviceMemory({exported.device, exported.name}, exported.byte_count));
    } else {
      XORBIT_ASSIGN_OR_RETURN(segment.shared, SharedMemory::Open(exported.name));
    }
    if (segment.bytes().size() < exported.byte_count) {
      return RefusedError("shared memory " + Quoted(exported.name) + " has " + std::to_string(segment.bytes().size()) +
                          " bytes, not " + std::to_string(exported.byte_count) +
                          ": the engine must size it before it writes the attachment");
    }
    segments_.push_back(std::move(segment));
  }
  return {};
}

// Nobody else writes to what is written here, or takes back what is done here. Memory of a device has no lock: whoever names it
// in a second attachment must name the same gate.
Status AttachedMemory::ClaimSegments(const Attachment& attachment) const {
  std::unordered_set<std::string> met;
  for (size_t i = 0; i < segments_.size(); ++i) {
    const ExportedSegment& exported = attachment.segments[i];
    std::string identity = exported.device + "/" + exported.name;
    for (char& digit : identity) digit = digit >= 'A' && digit <= 'F' ? static_cast<char>(digit - 'A' + 'a') : digit;
    if (segments_[i].device == nullptr) {
      XORBIT_ASSIGN_OR_RETURN(const SharedMemory::Identity shared, segments_[i].shared.identity());
      identity = std::to_string(shared.device) + ":" + std::to_string(shared.inode);
    }
    if (!met.insert(identity).second) {
      return CorruptError("segment " + std::to_string(i) + " is memory that another segment is already: list it once");
    }
    const Status claimed = segments_[i].device == nullptr ? ClaimSoon(segments_[i].shared) : Status();
    if (claimed.code() == Code::kRefused) {
      return RefusedError("another process has attached to " + Quoted(exported.name) + ": stop it first");
    }
    XORBIT_RETURN_IF_ERROR(claimed);
  }
  return {};
}

Result<MutableBytes> AttachedMemory::BytesAt(const Attachment& attachment, const ExportedPlace& place,
                                             uint64_t byte_count) const {
  const ExportedSegment& exported = attachment.segments[place.segment_index];
  if (place.offset_bytes <= exported.byte_count && byte_count <= exported.byte_count - place.offset_bytes) {
    return segments_[place.segment_index].bytes().subspan(place.offset_bytes, byte_count);
  }
  return RefusedError(std::to_string(byte_count) + " bytes at " + std::to_string(place.offset_bytes) + " do not fit " +
                      Quoted(exported.name) + ", which has " + std::to_string(exported.byte_count) +
                      ": the engine must export all of the memory");
}

Status AttachedMemory::OpenGate(const Attachment& attachment) {
  if (segments_[attachment.gate.segment_index].device != nullptr) {
    return UnsupportedError("the gate must lie in shared memory of the host");
  }
  XORBIT_ASSIGN_OR_RETURN(gate_words_, BytesAt(attachment, attachment.gate, sizeof(GateWords)));
  if (attachment.gate.offset_bytes % alignof(GateWords) != 0) return CorruptError("the gate is not aligned to 64 bytes");
  gate_ = EngineGate::Find(gate_words_);
  if (!gate_)
    return RefusedError("there is no gate of a known format: the engine must make it before it writes the attachment");
  gate_segment_ = attachment.gate.segment_index;
  if (!gate_->is_closed()) {
    found_ = FoundReaders{gate_->version(), gate_->is_clean()};
    opened_ = found_->version;
  }
  if (gate_->epoch() != map_.epoch()) {
    return RefusedError("the engine has moved its weights since it wrote its live map: it must write a new one");
  }
  return {};
}

Status AttachedMemory::OpenUndoMemory(const Attachment& attachment) {
  if (on_device_) {
    if (attachment.undo_bytes == 0) return {};
    return UnsupportedError("undo memory is for weights in host memory: leave it out for weights on a device");
  }
  if (attachment.undo_bytes == 0) {
    return RefusedError("there is no undo memory: without it, nobody could take back an update that is cut off");
  }
  if (segments_[attachment.undo.segment_index].device != nullptr) {
    return UnsupportedError("undo memory must lie in shared memory of the host");
  }
  XORBIT_ASSIGN_OR_RETURN(undo_memory_, BytesAt(attachment, attachment.undo, attachment.undo_bytes));
  if (attachment.undo.offset_bytes % alignof(uint64_t) != 0) return CorruptError("undo memory is not aligned to 8 bytes");
  XORBIT_RETURN_IF_ERROR(MakeRoom(undo_memory_.first(std::min<size_t>(undo_memory_.size(), UndoMemory::kLogOffset))));
  return UndoMemory::Open(undo_memory_).status();
}

Status AttachedMemory::Place(const Attachment& attachment, const Layout& layout) {
  const PlacesByName regions = ByName(attachment.regions);
  for (const LiveRegion& region : map_.regions()) {
    const auto found = regions.find(region.name);
    if (found == regions.end()) {
      return RefusedError("region " + Quoted(region.name) +
                          " of the live map has no place: the engine must hold it in memory that it can export; under PyTorch "
                          "in shared memory (share_memory_), on a device with "
                          "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False");
    }
    const Result<MutableBytes> bytes = BytesAt(attachment, *found->second, region.byte_count);
    if (!bytes.ok()) return bytes.status().WithContext("region " + Quoted(region.name));
    on_device_ = on_device_ || segments_[found->second->segment_index].device != nullptr;
    regions_.push_back(*bytes);
  }
  const PlacesByName kept = ByName(attachment.kept);
  for (const uint32_t tensor_index : map_.kept_tensors()) {
    const TensorSpec& tensor = layout.tensors()[tensor_index];
    const auto found = kept.find(tensor.name);
    if (found == kept.end()) {
      return RefusedError("tensor " + Quoted(tensor.name) +
                          " is bound as a shadow: the engine must export a canonical copy of it too ('kept')");
    }
    const Result<MutableBytes> bytes = BytesAt(attachment, *found->second, tensor.byte_count);
    if (!bytes.ok()) return bytes.status().WithContext("the copy of tensor " + Quoted(tensor.name));
    kept_.push_back(*bytes);
  }
  if (!map_.derived().empty()) {
    return UnsupportedError("the engine derives " + Quoted(map_.derived().front().callback) +
                            " from its weights, and nothing here could call it");
  }
  live_ = {&map_, regions_, kept_};
  return CheckMemory(layout, live_);
}

// Whatever is written lies in no other's place.
Status AttachedMemory::CheckApart() const {
  std::vector<MutableBytes> all = PlaceBytesOf(live_);
  all.push_back(undo_memory_);
  all.push_back(gate_words_);
  std::erase_if(all, [](MutableBytes bytes) { return bytes.empty(); });
  std::ranges::sort(all, std::less<>(), [](MutableBytes bytes) { return bytes.data(); });
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i].data() < all[i - 1].data() + all[i - 1].size()) {
      return CorruptError("regions, copies, gate and undo memory overlap");
    }
  }
  return {};
}

void AttachedMemory::Open(uint64_t version) {
  opened_ = version;
  gate_->Open(version);
}

Result<std::unique_ptr<AttachedMemory>> AttachedMemory::Attach(const fs::path& path, const Layout& layout) {
  std::unique_ptr<AttachedMemory> memory(new AttachedMemory());  // tidy-allow: private
  XORBIT_ASSIGN_OR_RETURN(const Attachment attachment, ReadAttachment(path));
  XORBIT_ASSIGN_OR_RETURN(memory->map_, ReadLiveMap(path.parent_path() / attachment.live_map, layout));
  const Status status = [&]() -> Status {
    XORBIT_RETURN_IF_ERROR(memory->OpenSegments(attachment));
    XORBIT_RETURN_IF_ERROR(memory->ClaimSegments(attachment));
    XORBIT_RETURN_IF_ERROR(memory->OpenGate(attachment));
    XORBIT_RETURN_IF_ERROR(memory->Place(attachment, layout));
    XORBIT_RETURN_IF_ERROR(memory->OpenUndoMemory(attachment));
    XORBIT_RETURN_IF_ERROR(memory->CheckApart());
    return memory->Readiness();
  }();
  if (!status.ok()) return status.WithContext(Quoted(path.string()));
  return memory;
}

std::string AttachedMemory::advice() const {
  std::vector<uint64_t> allocated_bytes;
  for (const Segment& segment : segments_) {
    if (segment.device != nullptr) allocated_bytes.push_back(segment.device->allocated_bytes());
  }
  return SmallPagesAdvice(allocated_bytes);
}

Status AttachedMemory::Readiness() const {
  const SharedMemory& segment = segments_[gate_segment_].shared;
  if (segment.TryLock()) {  // the engine has it as long as it lives
    segment.Unlock();
    return EngineEnded();
  }
  XORBIT_RETURN_IF_ERROR(CheckReach());
  return gate_->epoch() == map_.epoch() ? Status() : EngineMoved();
}

Status AttachedMemory::CheckReach() const {
  if (std::ranges::all_of(segments_, [](const Segment& one) { return one.device != nullptr || one.shared.is_whole(); })) {
    return {};
  }
  return RefusedError("the engine has cut its shared memory, and what is gone cannot be read: start it again");
}

Status AttachedMemory::Close(Deadline deadline) {
  XORBIT_RETURN_IF_ERROR(Readiness());
  if (!gate_->Close(deadline)) {
    return RefusedError("the engine did not leave its weights in time: " + std::to_string(gate_->inside_count()) +
                        " of its steps are inside");
  }
  if (gate_->epoch() == map_.epoch()) return {};
  if (opened_) gate_->Open(*opened_);
  return EngineMoved();
}

}  // namespace xorbit
