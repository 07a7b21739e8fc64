// A checkpoint on disk: one .safetensors file, or a folder of them with or without model.safetensors.index.json.
#pragma once

#include <cstdint>
#include <vector>

#include "base/file.h"
#include "tensor/layout.h"
#include "tensor/safetensors.h"

namespace xorbit {

// Where a tensor's canonical bytes are: checkpoint file and byte offset in it.
struct TensorLocation {
  uint32_t file_index = 0;
  uint64_t offset_bytes = 0;
};

struct CheckpointFile {
  fs::path path;
  MappedFile map;
  uint64_t header_bytes = 0;  // length field + JSON
};

// Read-only view of a checkpoint; its files are mapped, not read. Immutable, safe to share between threads.
class Checkpoint {
 public:
  // `path` is a .safetensors file or a folder. In a folder with an index, exactly the index's files are read and its weight_map
  // must agree with their headers in both directions; without one, every *.safetensors in the folder (not in sub-folders).
  // Errors name the file. A tensor in two files is kCorrupt; a folder without tensors is kNotFound.
  static Result<Checkpoint> Open(const fs::path& path);

  const fs::path& path() const { return path_; }
  bool is_folder() const { return is_folder_; }
  const Layout& layout() const { return layout_; }
  const std::vector<CheckpointFile>& files() const { return files_; }  // ordered by path
  // Indexed like layout().tensors().
  const std::vector<TensorLocation>& locations() const { return locations_; }
  ConstBytes tensor_bytes(uint32_t tensor_index) const;
  // All tensors, in layout order.
  std::vector<ConstBytes> all_tensor_bytes() const;

 private:
  fs::path path_;
  bool is_folder_ = false;
  Layout layout_;
  std::vector<CheckpointFile> files_;
  std::vector<TensorLocation> locations_;
};

}  // namespace xorbit
