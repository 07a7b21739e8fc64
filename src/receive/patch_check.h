// The bounds of a patch block, asked for in one place by everyone who takes one: journal writer, journal reader, direct
// patching.
#pragma once

#include "receive/journal_format.h"
#include "receive/patch.h"

namespace xorbit {

// kCorrupt unless the block names one of `files`, has a legal unit and count, ascending positions, and lies between that file's
// header and its end. Reads positions only after count was found legal.
Status CheckPatchBlock(const PatchBlock& block, const std::vector<JournalFile>& files);

// Bytes of the file that the block touches lie in [begin, end). Only for a block that was checked.
inline uint64_t PatchBegin(const PatchBlock& block) {
  return block.file_offset + uint64_t{block.positions[0]} * block.unit_bytes;
}
inline uint64_t PatchEnd(const PatchBlock& block) {
  return block.file_offset + (uint64_t{block.positions[block.count - 1]} + 1) * block.unit_bytes;
}

}  // namespace xorbit
