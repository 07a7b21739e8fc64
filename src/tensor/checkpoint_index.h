// model.safetensors.index.json: which file of a sharded checkpoint holds which tensor. Parsing and comparing, no files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace xorbit {

inline constexpr std::string_view kCheckpointIndexName = "model.safetensors.index.json";
inline constexpr uint64_t kCheckpointIndexMaxBytes = 100'000'000;
inline constexpr uint64_t kCheckpointMaxHeaderBytes = 200'000'000;  // of JSON, all files together: twice what one may have
inline constexpr uint64_t kCheckpointMaxFiles = 65'536;             // about what Linux lets one process map

struct CheckpointIndex {
  struct Tensor {
    std::string name;
    uint32_t file_index = 0;  // into file_names
  };
  std::vector<Tensor> tensors;          // by name, no name twice
  std::vector<std::string> file_names;  // ascending, each named by a tensor
};

// kCorrupt for malformed JSON or UTF-8, no weight_map or two, a tensor that it maps twice, and file names that are not the
// plain name of a file in the index's folder (separators, "..", hidden files). Other fields may hold anything: nobody agrees on
// them. Memory is bounded by a small multiple of the text.
Result<CheckpointIndex> ParseCheckpointIndex(ConstBytes json);

// The text of an index, as the usual Python tools write it.
std::string BuildCheckpointIndex(const CheckpointIndex& index, uint64_t total_bytes);

// A tensor as the headers have it; file_index goes by the index's file_names.
struct HeldTensor {
  std::string_view name;
  uint32_t file_index = 0;
};

// kCorrupt with the tensor's name unless the index and the headers of its files tell the same, both ways. `held` is by name, no
// name twice.
Status CheckIndexAgrees(const CheckpointIndex& index, std::span<const HeldTensor> held);

}  // namespace xorbit
