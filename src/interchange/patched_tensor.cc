#include "interchange/patched_tensor.h"

#include <algorithm>
#include <string>

namespace xorbit {
namespace {

constexpr uint64_t kCountBytes = 4;
constexpr uint64_t kPositionBytes = 4;
constexpr uint64_t kBlockEntries = 4096;

Status LengthMismatch(uint64_t content_bytes, uint64_t live_bytes) {
  return CorruptError("decodes to " + std::to_string(content_bytes) + " bytes, which does not fit the tensor's " +
                      std::to_string(live_bytes) + " bytes; the delta was made for another checkpoint");
}

}  // namespace

Result<PatchedTensorReader> PatchedTensorReader::Open(MilesEncoding encoding, ConstBytes entry, ConstBytes live) {
  PatchedTensorReader reader;
  reader.live_ = live;
  if (encoding == MilesEncoding::kOverwrite) {
    XORBIT_ASSIGN_OR_RETURN(reader.source_, OpenOverwrite(entry, live));
    return reader;
  }
  XORBIT_ASSIGN_OR_RETURN(ZstdFrameReader mask, ZstdFrameReader::Open(entry));
  if (mask.content_bytes() != live.size()) return LengthMismatch(mask.content_bytes(), live.size());
  reader.source_ = std::move(mask);
  return reader;
}

Result<PatchedTensorReader::Overwrite> PatchedTensorReader::OpenOverwrite(ConstBytes entry, ConstBytes live) {
  XORBIT_ASSIGN_OR_RETURN(ZstdFrameReader positions, ZstdFrameReader::Open(entry));
  XORBIT_ASSIGN_OR_RETURN(ZstdFrameReader values, ZstdFrameReader::Open(entry));
  if (positions.content_bytes() < kCountBytes) return CorruptError("is too short for a count of positions");
  uint8_t count_bytes[kCountBytes];
  XORBIT_RETURN_IF_ERROR(positions.Read(count_bytes));
  const uint64_t count = LoadLe<uint32_t>(count_bytes);
  if (positions.content_bytes() != kCountBytes + count * (kPositionBytes + 1)) {
    return CorruptError("decodes to another length than its count of " + std::to_string(count) + " positions asks for");
  }
  // Positions ascend strictly, so more of them cannot be right; refused before any work is spent on them.
  if (count > live.size()) return LengthMismatch(positions.content_bytes(), live.size());
  XORBIT_RETURN_IF_ERROR(values.Skip(kCountBytes + count * kPositionBytes));
  Overwrite overwrite{std::move(positions), std::move(values), {}, {}, count, 0, 0};
  XORBIT_RETURN_IF_ERROR(ReadBlock(&overwrite, live.size()));
  return overwrite;
}

Status PatchedTensorReader::ReadBlock(Overwrite* overwrite, uint64_t live_bytes) {
  const uint64_t count = std::min(overwrite->unread_count, kBlockEntries);
  overwrite->unread_count -= count;
  overwrite->block_index = 0;
  overwrite->position_block.resize(count * kPositionBytes);
  overwrite->value_block.resize(count);
  XORBIT_RETURN_IF_ERROR(overwrite->positions.Read(overwrite->position_block));
  XORBIT_RETURN_IF_ERROR(overwrite->values.Read(overwrite->value_block));
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t position = LoadLe<uint32_t>(overwrite->position_block.data() + i * kPositionBytes);
    if (position < overwrite->next_minimum) return CorruptError("has positions that do not ascend");
    if (position >= live_bytes) return CorruptError("has a position outside the tensor");
    overwrite->next_minimum = position + 1;
  }
  return {};
}

Status PatchedTensorReader::Next(MutableBytes target) {
  assert(target.size() <= live_.size() - at_);
  if (Overwrite* overwrite = std::get_if<Overwrite>(&source_)) {
    XORBIT_RETURN_IF_ERROR(NextOverwrite(overwrite, target));
  } else {
    XORBIT_RETURN_IF_ERROR(std::get<ZstdFrameReader>(source_).Read(target));
    const uint8_t* live = live_.data() + at_;
    for (size_t i = 0; i < target.size(); ++i) target[i] ^= live[i];
  }
  at_ += target.size();
  return {};
}

Status PatchedTensorReader::NextOverwrite(Overwrite* overwrite, MutableBytes target) {
  std::copy_n(live_.begin() + at_, target.size(), target.begin());
  while (true) {
    const uint64_t block_count = overwrite->value_block.size();
    for (uint64_t& i = overwrite->block_index; i < block_count; ++i) {
      const uint64_t position = LoadLe<uint32_t>(overwrite->position_block.data() + i * kPositionBytes);
      if (position >= at_ + target.size()) return {};
      target[position - at_] = overwrite->value_block[i];
    }
    if (overwrite->unread_count == 0) return {};
    XORBIT_RETURN_IF_ERROR(ReadBlock(overwrite, live_.size()));
  }
}

Status PatchedTensorReader::Finish() {
  assert(at_ == live_.size());
  if (Overwrite* overwrite = std::get_if<Overwrite>(&source_)) {
    // The decoder of positions stops where the values begin: the other one reads through to the end, checksum included.
    return overwrite->values.Finish();
  }
  return std::get<ZstdFrameReader>(source_).Finish();
}

}  // namespace xorbit
