// The safetensors file format: u64 header length, JSON header, tensor bytes without holes. Strict, because the bytes may be
// anybody's. Source: https://huggingface.co/docs/safetensors ("Format") and the reference implementation's checks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "tensor/dtype.h"

namespace xorbit {

inline constexpr uint64_t kSafetensorsMaxHeaderBytes = 100'000'000;    // of the JSON, as in the reference implementation
inline constexpr uint64_t kSafetensorsMaxMetadataEntries = 1'000'000;  // ours: bounds the memory of hostile metadata
inline constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";

struct SafetensorsEntry {
  std::string name;
  Dtype dtype = Dtype::kU8;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // bytes of the tensor in the file: [begin, end), from the file's start
  uint64_t end = 0;
};

struct SafetensorsFile {
  std::vector<SafetensorsEntry> entries;        // in the order of their bytes; empty ones of one place by name
  std::map<std::string, std::string> metadata;  // "__metadata__"
  uint64_t header_bytes = 0;                    // length field + JSON: where tensor bytes begin
};

// Bytes of JSON that ParseSafetensors would parse: what the file says, or 0 where it will be refused unread.
uint64_t SafetensorsJsonBytes(ConstBytes file);

// Parses the header of a whole file. kCorrupt, with the tensor's name where there is one, for: truncation, a header over the
// limit, malformed JSON or UTF-8, nesting deeper than the format's, numbers that are not non-negative 64-bit integers,
// repeated keys, unknown or missing fields, unknown dtypes (kUnsupported), more than Layout::kMaxRank dimensions, lengths that
// do not fit dtype and shape, overlaps, holes, bytes after the last tensor. Only the header's bytes are touched. Memory is
// bounded by a small multiple of the header's length.
Result<SafetensorsFile> ParseSafetensors(ConstBytes file);

// Header for tensors laid end to end in the order given (begin and end of `entries` are ignored and computed), padded with
// spaces so that tensor bytes start on a multiple of 8: byte for byte what the Python package writes for the same order.
// kCorrupt for what ParseSafetensors would refuse: a repeated or reserved name, text that is not UTF-8, impossible shapes, a
// header over the limit.
struct SafetensorsHeaderSpec {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;  // left out if empty
};
Result<Buffer> BuildSafetensorsHeader(const SafetensorsHeaderSpec& spec);

// True if the Python package lays tensor `a` before tensor `b`: wider types first, so that every tensor is aligned to its own
// elements, then by name.
bool SafetensorsWritesBefore(Dtype a_dtype, std::string_view a_name, Dtype b_dtype, std::string_view b_name);

}  // namespace xorbit
