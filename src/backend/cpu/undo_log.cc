#include "backend/cpu/undo_log.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/parallel.h"
#include "tensor/live_bits.h"

namespace xorbit {
namespace {

// Elements in a view, so that threads have something to share and each view is worth its call.
constexpr uint64_t kViewElements = 65536;

// Where the log's arrays begin.
struct Sections {
  uint64_t blocks;
  uint64_t offsets;
  uint64_t xors;
  uint64_t olds;
  uint64_t end;
};

// Nothing if the sizes overflow.
std::optional<Sections> SectionsOf(const UndoLogRecord& record) {
  constexpr uint64_t kMost = UINT64_MAX / 256;
  if (record.block_count > kMost || record.element_count > kMost || record.value_bytes > kMost) return std::nullopt;
  Sections at{};
  at.blocks = sizeof(UndoLogRecord);
  at.offsets = at.blocks + record.block_count * sizeof(TouchBlock);
  at.xors = at.offsets + PaddedTo8(record.element_count * sizeof(uint32_t));
  at.olds = at.xors + PaddedTo8(record.value_bytes);
  at.end = at.olds + PaddedTo8(record.value_bytes);
  return at;
}

UndoLogRecord RecordOf(std::span<const TouchLog> logs) {
  UndoLogRecord record{};
  for (const TouchLog& log : logs) {
    record.block_count += log.view({}).blocks.size();
    record.element_count += log.offsets().size();
    record.value_bytes += log.xors().size();
  }
  return record;
}

template <typename T>
void Put(MutableBytes out, uint64_t at, std::span<const T> values) {
  if (!values.empty()) std::memcpy(out.data() + at, values.data(), values.size_bytes());
}

Status CheckBlock(const TouchBlock& block, const UndoLogRecord& record, const uint32_t* offsets,
                  std::span<const MutableBytes> places) {
  const auto bad = [](const char* why) { return CorruptError(std::string("undo log: ") + why); };
  const uint32_t width = block.width_bits;
  if (width != 4 && width != 8 && width != 16 && width != 32 && width != 64) return bad("elements of a width that none have");
  if (block.place_index >= places.size()) return bad("a place that live memory does not have");
  if (block.first > record.element_count || block.count > record.element_count - block.first) return bad("a block leaves it");
  const uint64_t value_bytes = block.count * ValueBytesOf(width);
  if (block.value_offset > record.value_bytes || value_bytes > record.value_bytes - block.value_offset) {
    return bad("a block's values leave it");
  }
  const uint64_t place_bytes = places[block.place_index].size();
  const uint64_t last_bytes = width == kNibbleBits ? 1 : width / 8;
  if (place_bytes < last_bytes && block.count > 0) return bad("an element leaves its place");
  const uint64_t position_count = width == kNibbleBits ? 2 * place_bytes : place_bytes - last_bytes + 1;
  for (uint64_t i = 0; i < block.count; ++i) {
    if (block.base + offsets[block.first + i] >= position_count) return bad("an element leaves its place");
  }
  return {};
}

}  // namespace

uint64_t UndoLogBytes(std::span<const TouchLog> logs) { return SectionsOf(RecordOf(logs))->end; }

void WriteUndoLog(std::span<const TouchLog> logs, MutableBytes out, int threads) {
  const UndoLogRecord record = RecordOf(logs);
  const Sections at = *SectionsOf(record);
  std::memcpy(out.data(), &record, sizeof(record));
  std::vector<UndoLogRecord> starts;
  UndoLogRecord next{};
  for (const TouchLog& log : logs) {
    starts.push_back(next);
    const UndoLogRecord one = RecordOf({&log, 1});
    next = {next.block_count + one.block_count, next.element_count + one.element_count, next.value_bytes + one.value_bytes};
  }
  for (const auto& [begin, used] : {std::pair{at.offsets, record.element_count * sizeof(uint32_t)},
                                    std::pair{at.xors, record.value_bytes}, std::pair{at.olds, record.value_bytes}}) {
    std::ranges::fill(out.subspan(begin + used, PaddedTo8(used) - used), 0);
  }
  // Copying fails nowhere.
  (void)ParallelFor(threads, logs.size(), [&](uint64_t index) -> Status {
    const TouchLog& log = logs[index];
    const UndoLogRecord& start = starts[index];
    std::vector<TouchBlock> blocks(log.view({}).blocks.begin(), log.view({}).blocks.end());
    for (TouchBlock& block : blocks) {
      block.first += start.element_count;
      block.value_offset += start.value_bytes;
    }
    Put<TouchBlock>(out, at.blocks + start.block_count * sizeof(TouchBlock), blocks);
    Put<uint32_t>(out, at.offsets + start.element_count * sizeof(uint32_t), log.offsets());
    Put<uint8_t>(out, at.xors + start.value_bytes, log.xors());
    Put<uint8_t>(out, at.olds + start.value_bytes, log.olds());
    return {};
  });
}

Result<std::vector<TouchView>> ParseUndoLog(ConstBytes log, std::span<const MutableBytes> places) {
  UndoLogRecord record{};
  if (log.size() < sizeof(record)) return CorruptError("undo log: truncated");
  std::memcpy(&record, log.data(), sizeof(record));
  const std::optional<Sections> at = SectionsOf(record);
  if (!at || at->end != log.size()) return CorruptError("undo log: its parts are not as long as it is");
  const std::span blocks(reinterpret_cast<const TouchBlock*>(log.data() + at->blocks), record.block_count);
  const auto* offsets = reinterpret_cast<const uint32_t*>(log.data() + at->offsets);
  std::vector<TouchView> views;
  for (size_t begin = 0; begin < blocks.size();) {
    uint64_t element_count = 0;
    size_t end = begin;
    for (; end < blocks.size() && element_count < kViewElements; ++end) {
      XORBIT_RETURN_IF_ERROR(CheckBlock(blocks[end], record, offsets, places));
      element_count += blocks[end].count;
    }
    views.push_back({blocks.subspan(begin, end - begin), offsets, log.data() + at->xors, log.data() + at->olds, places});
    begin = end;
  }
  return views;
}

}  // namespace xorbit
