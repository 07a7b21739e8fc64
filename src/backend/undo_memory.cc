#include "backend/undo_memory.h"

#include <atomic>
#include <cassert>
#include <string>
#include <vector>

namespace xorbit {
namespace {

constexpr uint64_t kSlotOffset = 64;
constexpr uint64_t kSlotBytes = 192;
static_assert(kSlotOffset + 2 * kSlotBytes <= UndoMemory::kLogOffset && sizeof(UndoRecord) <= kSlotBytes);

struct HeadRecord {
  std::array<uint8_t, 8> magic;
  uint32_t version;
  uint32_t zero;
};
static_assert(sizeof(HeadRecord) == 16);

// Whoever is killed has done what stands before and nothing of what stands after. Against the compiler alone: a processor that
// stops between two instructions still stores all that came before them.
void Fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }

Xxh3Digest SealOf(const UndoRecord& record) {
  return Xxh3Of({reinterpret_cast<const uint8_t*>(&record), offsetof(UndoRecord, xxh3)});
}

uint64_t SlotOf(uint64_t sequence) { return kSlotOffset + sequence % 2 * kSlotBytes; }

std::optional<UndoRecord> ReadSlot(ConstBytes bytes, uint64_t slot) {
  UndoRecord record;
  std::memcpy(&record, bytes.data() + kSlotOffset + slot * kSlotBytes, sizeof(record));
  // There is none after the highest.
  if (record.sequence == 0 || record.sequence == UINT64_MAX || record.sequence % 2 != slot) return std::nullopt;
  if (record.xxh3 != SealOf(record)) return std::nullopt;
  return record;
}

uint64_t ShapeOf(const LiveMemory& live) {
  std::vector<uint64_t> sizes;
  for (const MutableBytes region : live.regions) sizes.push_back(region.size());
  for (const MutableBytes kept : live.kept) sizes.push_back(kept.size());
  return Xxh3Hash64Of({reinterpret_cast<const uint8_t*>(sizes.data()), sizes.size() * sizeof(uint64_t)});
}

}  // namespace

UndoRecord UndoRecordOf(const LiveMemory& live, const UndoVersions& versions) {
  UndoRecord record;
  record.epoch = live.map->epoch();
  record.shape = ShapeOf(live);
  record.layout = live.map->layout_digest();
  record.versions = versions;
  return record;
}

Status CheckUndoRecord(const UndoRecord& record, const LiveMemory& live) {
  const auto refuse = [](const char* why) {
    return RefusedError(std::string("an update was cut off, and cannot be taken back because ") + why +
                        ": load a checkpoint and set undo memory to zero");
  };
  if (record.layout != live.map->layout_digest()) return refuse("it was of a model of another layout");
  if (record.epoch != live.map->epoch()) return refuse("the engine has moved its weights since");
  if (record.shape != ShapeOf(live)) return refuse("the regions of live memory are not those that it changed");
  return {};
}

Result<UndoMemory> UndoMemory::Open(MutableBytes bytes) {
  if (bytes.size() < kLogOffset || reinterpret_cast<uintptr_t>(bytes.data()) % 8 != 0) {
    return UsageError("undo memory must be aligned to 8 bytes and have " + std::to_string(kLogOffset) + " at least");
  }
  UndoMemory memory(bytes);
  HeadRecord head{};
  std::memcpy(&head, bytes.data(), sizeof(head));
  if (IsAllZero(head.magic)) return memory;
  if (head.magic != kUndoMagic) return RefusedError("undo memory holds something else: set it to zero");
  if (head.version != kUndoVersion) {
    return RefusedError("undo memory was written by another release (format " + std::to_string(head.version) +
                        "): attach with that one, or load a checkpoint and set undo memory to zero");
  }
  for (const uint64_t slot : {0U, 1U}) {
    const std::optional<UndoRecord> found = ReadSlot(bytes, slot);
    if (found && (!memory.record_ || found->sequence > memory.record_->sequence)) memory.record_ = found;
  }
  if (!memory.record_) {
    return CorruptError("undo memory is damaged, so nobody knows what live memory holds: load a checkpoint and set it to zero");
  }
  const UndoState state = memory.record_->state;
  if (state != UndoState::kWaiting && state != UndoState::kArmed && state != UndoState::kDone) {
    return CorruptError("undo memory is in an unknown state: load a checkpoint and set it to zero");
  }
  return memory;
}

Result<Buffer> UndoMemory::ProvenLog() const {
  if (!record_) return UsageError("undo memory holds no log");
  const ConstBytes room = log_room();
  if (record_->log_bytes > room.size()) return CorruptError("the undo log is longer than undo memory");
  Buffer log(room.begin(), room.begin() + static_cast<ptrdiff_t>(record_->log_bytes));
  if (Xxh3Of(log) != record_->log_xxh3) return CorruptError("the undo log is not what was written");
  return log;
}

void UndoMemory::Seal(UndoRecord record, uint64_t log_bytes) {
  assert(!record_ || record_->state != UndoState::kArmed);
  record.sequence = record_ ? record_->sequence + 1 : 1;
  record.log_bytes = log_bytes;
  record.log_xxh3 = Xxh3Of(log_room().first(log_bytes));
  record.xxh3 = SealOf(record);
  record.state = UndoState::kWaiting;
  // The slot holds the record before the last, which nobody needs. Its seal is broken first and made last.
  uint8_t* slot = bytes_.data() + SlotOf(record.sequence);
  constexpr uint64_t kSealOffset = offsetof(UndoRecord, xxh3);
  std::memset(slot + kSealOffset, 0, sizeof(record.xxh3));
  Fence();
  std::memcpy(slot, &record, kSealOffset);
  std::memcpy(slot + offsetof(UndoRecord, state), &record.state, sizeof(record.state));
  Fence();
  std::memcpy(slot + kSealOffset, &record.xxh3, sizeof(record.xxh3));
  Fence();
  if (!record_) {
    const HeadRecord head{kUndoMagic, kUndoVersion, 0};
    std::memcpy(bytes_.data() + sizeof(head.magic), reinterpret_cast<const uint8_t*>(&head) + sizeof(head.magic),
                sizeof(head) - sizeof(head.magic));
    Fence();
    std::memcpy(bytes_.data(), head.magic.data(), sizeof(head.magic));
    Fence();
  }
  record_ = record;
}

void UndoMemory::SetState(UndoState state) {
  record_->state = state;
  auto* const word = reinterpret_cast<uint64_t*>(bytes_.data() + SlotOf(record_->sequence) + offsetof(UndoRecord, state));
  Fence();
  std::atomic_ref(*word).store(static_cast<uint64_t>(state), std::memory_order_seq_cst);
  Fence();
}

}  // namespace xorbit
