// The safetensors file format: u64 header length, JSON header, tensor bytes without holes. Strict, because the bytes may be
// anybody's. Source: https://huggingface.co/docs/safetensors ("Format") and the reference implementation's checks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "tensor/dtype.h"

namespace xorbit {

inline constexpr uint64_t kSafetensorsMaxHeaderBytes = 100'000'000;  // of the JSON, as in the reference implementation

struct SafetensorsEntry {
  std::string name;
  Dtype dtype = Dtype::kU8;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // bytes of the tensor in the file: [begin, end), from the file's start
  uint64_t end = 0;
};

struct SafetensorsFile {
  std::vector<SafetensorsEntry> entries;        // in the order of their bytes
  std::map<std::string, std::string> metadata;  // "__metadata__"
  uint64_t header_bytes = 0;                    // length field + JSON: where tensor bytes begin
};

// Parses the header of a whole file. kCorrupt, with the tensor's name where there is one, for: truncation, a header over the
// limit, malformed JSON or UTF-8, nesting deeper than the format's, numbers that are not non-negative 64-bit integers,
// repeated keys, unknown or missing fields, unknown dtypes (kUnsupported), lengths that do not fit dtype and shape, overlaps,
// holes, bytes after the last tensor. Memory is bounded by a small multiple of the header's length.
Result<SafetensorsFile> ParseSafetensors(ConstBytes file);

// Header for tensors laid end to end in the order given (begin and end of `entries` are ignored and computed), padded with
// spaces so that tensor bytes start on a multiple of 8.
struct SafetensorsHeaderSpec {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};
Result<Buffer> BuildSafetensorsHeader(const SafetensorsHeaderSpec& spec);

}  // namespace xorbit
