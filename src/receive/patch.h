// Patches: what a file target is asked to change, before anything is changed.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace xorbit {

// Changes of one file within one stretch: element i lies at file_offset + positions[i] * unit_bytes, holds olds[i] now and
// shall hold olds[i] ^ xors[i]. Positions ascend. The arrays belong to the caller and live for the call only.
struct PatchBlock {
  uint32_t file_index = 0;  // into the checkpoint's files
  uint32_t unit_bytes = 0;  // 1, 2, 4 or 8
  uint64_t file_offset = 0;
  uint32_t count = 0;  // 1 to 65536
  const uint16_t* positions = nullptr;
  const uint8_t* olds = nullptr;  // count * unit_bytes
  const uint8_t* xors = nullptr;  // count * unit_bytes
};

// Takes patch blocks in any order. Blocks do not overlap, but may interleave within a file. Add() is thread-safe.
class PatchSink {
 public:
  PatchSink() = default;
  PatchSink(const PatchSink&) = delete;
  PatchSink& operator=(const PatchSink&) = delete;
  virtual ~PatchSink() = default;
  virtual Status Add(const PatchBlock& block) = 0;
};

}  // namespace xorbit
