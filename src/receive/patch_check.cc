#include "receive/patch_check.h"

#include "base/checked_math.h"

namespace xorbit {
namespace {

// Without an early exit, so that the compiler may compare many at once.
bool Ascends(const uint16_t* positions, uint32_t count) {
  bool ascends = true;
  for (uint32_t i = 1; i < count; ++i) ascends &= positions[i - 1] < positions[i];
  return ascends;
}

}  // namespace

Status CheckPatchBlock(const PatchBlock& block, const std::vector<JournalFile>& files) {
  if (block.file_index >= files.size()) {
    return CorruptError("a patch names file " + std::to_string(block.file_index) + " of " + std::to_string(files.size()));
  }
  const JournalFile& file = files[block.file_index];
  const uint32_t unit = block.unit_bytes;
  if (unit != 1 && unit != 2 && unit != 4 && unit != 8) {
    return CorruptError("a patch of '" + file.name + "' has units of " + std::to_string(unit) + " bytes");
  }
  if (block.count == 0 || block.count > kPatchMaxCount) {
    return CorruptError("a patch of '" + file.name + "' has " + std::to_string(block.count) + " changes");
  }
  if (!Ascends(block.positions, block.count)) {
    return CorruptError("a patch of '" + file.name + "' has positions that do not ascend");
  }
  const uint64_t span_bytes = (uint64_t{block.positions[block.count - 1]} + 1) * unit;
  const std::optional<uint64_t> end = CheckedAdd(block.file_offset, span_bytes);
  if (block.file_offset < file.header_bytes || !end || *end > file.file_bytes) {
    return CorruptError("a patch at byte " + std::to_string(block.file_offset) + " lies outside the tensors of '" + file.name +
                        "'");
  }
  return {};
}

}  // namespace xorbit
