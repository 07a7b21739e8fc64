// model.safetensors.index.json of a weight_vNNNNNN folder: what kind of change it is and which file holds which tensor.
// docs/formats/interchange.md.
//
// The folders look like ordinary sharded checkpoints on purpose; only "delta_encoding" in the index tells a delta from a full
// version, so a reader that does not ask takes compressed masks for weights.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "interchange/weight_checksum.h"

namespace xorbit {

inline constexpr std::string_view kMilesIndexFile = "model.safetensors.index.json";
inline constexpr uint64_t kMilesMaxIndexBytes = 100'000'000;

enum class MilesEncoding {
  kXor,        // a tensor's entry decompresses to new ^ old, as long as the tensor
  kOverwrite,  // to u32 count | u32 byte positions | new bytes
};

struct MilesIndex {
  uint64_t version = 0;
  uint64_t base_version = 0;
  MilesEncoding encoding = MilesEncoding::kXor;
  ChecksumFormat checksum_format = ChecksumFormat::kXxh128;
  std::map<std::string, std::string> weight_map;  // changed tensors only: name to file

  friend bool operator==(const MilesIndex&, const MilesIndex&) = default;
};

// Strict: kCorrupt for malformed JSON, repeated keys, missing or mistyped fields, versions that are not decimal digits, and
// file names that are not plain names of .safetensors files (no path leads out of the folder). kRefused for a full version,
// kUnsupported for encodings, compressions and checksums that are not read. Unknown fields are ignored.
Result<MilesIndex> ParseMilesIndex(std::string_view json);

// Deterministic; versions zero-padded to six digits.
std::string WriteMilesIndex(const MilesIndex& index);

// "weight_v000007"
std::string MilesFolderName(uint64_t version);
// The version of which this is the folder's name; nothing for another name.
std::optional<uint64_t> MilesVersionNamed(std::string_view folder_name);
// "model-00000-of-00003.safetensors"
std::string MilesPayloadName(uint64_t file_index, uint64_t file_count);

}  // namespace xorbit
