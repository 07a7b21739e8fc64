#include "receive/patch_window.h"

#include <algorithm>

#include "receive/patch_check.h"

namespace xorbit {
namespace {

constexpr uint64_t kPageBytes = 4096;

// Whether every byte of `found` is that of `before` or that of `after`: what a write that was cut anywhere leaves.
template <typename Word>
bool IsMixture(Word found, Word before, Word after) {
  for (size_t i = 0; i < sizeof(Word); ++i) {
    const auto byte = [i](Word word) { return static_cast<uint8_t>(static_cast<uint64_t>(word) >> (8 * i)); };
    if (byte(found) != byte(before) && byte(found) != byte(after)) return false;
  }
  return true;
}

// Returns whether every value found obeyed the rule. `target` is where position 0 lies; only positions' own bytes are accessed.
template <typename Word, PatchRule rule>
bool PatchElements(const PatchBlock& block, uint8_t* bytes, uint64_t target) {
  Word differences = 0;
  for (uint32_t i = 0; i < block.count; ++i) {
    uint8_t* const place = bytes + (target + uint64_t{block.positions[i]} * sizeof(Word));
    const Word before = LoadLe<Word>(block.olds + uint64_t{i} * sizeof(Word));
    const Word after = static_cast<Word>(before ^ LoadLe<Word>(block.xors + uint64_t{i} * sizeof(Word)));
    if constexpr (rule == PatchRule::kCheckOldOrNew) {
      const Word found = LoadLe<Word>(place);
      if (found != before && found != after && !IsMixture(found, before, after)) return false;
      continue;
    }
    if constexpr (rule == PatchRule::kRedoFromOld) differences |= static_cast<Word>(LoadLe<Word>(place) ^ before);
    StoreLe<Word>(place, rule == PatchRule::kUndo ? before : after);
  }
  return differences == 0;
}

template <typename Word>
bool PatchByRule(const PatchBlock& block, uint8_t* bytes, uint64_t target, PatchRule rule) {
  switch (rule) {
    case PatchRule::kRedoFromOld:
      return PatchElements<Word, PatchRule::kRedoFromOld>(block, bytes, target);
    case PatchRule::kRedo:
      return PatchElements<Word, PatchRule::kRedo>(block, bytes, target);
    case PatchRule::kUndo:
      return PatchElements<Word, PatchRule::kUndo>(block, bytes, target);
    case PatchRule::kCheckOldOrNew:
      return PatchElements<Word, PatchRule::kCheckOldOrNew>(block, bytes, target);
  }
  return false;
}

bool PatchByUnit(const PatchBlock& block, uint8_t* bytes, uint64_t target, PatchRule rule) {
  switch (block.unit_bytes) {
    case 1:
      return PatchByRule<uint8_t>(block, bytes, target, rule);
    case 2:
      return PatchByRule<uint16_t>(block, bytes, target, rule);
    case 4:
      return PatchByRule<uint32_t>(block, bytes, target, rule);
    default:
      return PatchByRule<uint64_t>(block, bytes, target, rule);
  }
}

}  // namespace

bool PatchWindow::Fits(const PatchBlock& block) const { return PatchEnd(block) - begin_ <= kCapacityBytes; }

void PatchWindow::Mark(const PatchBlock& block) {
  assert(PatchBegin(block) >= begin_ && Fits(block));
  end_ = std::max(end_, PatchEnd(block));
  const uint64_t first_page = begin_ / kPageBytes;
  touched_pages_.resize((end_ - 1) / kPageBytes - first_page + 1);
  const uint64_t unit = block.unit_bytes;
  const uint64_t offset = block.file_offset - first_page * kPageBytes;  // may wrap; every sum below is in range again
  for (uint32_t i = 0; i < block.count; ++i) {
    const uint64_t at = offset + block.positions[i] * unit;
    touched_pages_[at / kPageBytes] = 1;
    touched_pages_[(at + unit - 1) / kPageBytes] = 1;
  }
}

void PatchWindow::TakeRuns() {
  runs_.clear();
  const uint64_t first_page = begin_ / kPageBytes;
  const uint64_t page_count = touched_pages_.size();
  for (uint64_t page = 0; page < page_count; ++page) {
    if (touched_pages_[page] == 0) continue;
    uint64_t end = page + 1;
    while (end < page_count && (touched_pages_[end] != 0 || (end + 1 < page_count && touched_pages_[end + 1] != 0))) ++end;
    runs_.push_back({std::max(begin_, (first_page + page) * kPageBytes), std::min(end_, (first_page + end) * kPageBytes)});
    page = end;
  }
  touched_pages_.clear();
}

Status PatchWindow::Read(const UniqueFd& fd) {
  TakeRuns();
  if (bytes_.size() < end_ - begin_) bytes_.resize(end_ - begin_);
  for (const Run& run : runs_) XORBIT_RETURN_IF_ERROR(ReadAt(fd, BytesOf(run), run.begin));
  return {};
}

Status PatchWindow::Patch(const PatchBlock& block, PatchRule rule) {
  if (PatchByUnit(block, bytes_.data(), block.file_offset - begin_, rule)) return {};
  return RefusedError("bytes between " + std::to_string(PatchBegin(block)) + " and " + std::to_string(PatchEnd(block)) +
                      " are not what they were when the change was prepared");
}

Status PatchWindow::Write(FileOps& ops, const UniqueFd& fd) {
  for (const Run& run : runs_) XORBIT_RETURN_IF_ERROR(ops.Pwrite(fd, BytesOf(run), run.begin));
  return {};
}

}  // namespace xorbit
