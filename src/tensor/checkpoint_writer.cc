#include "tensor/checkpoint_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/staged_folder.h"
#include "base/text.h"
#include "tensor/checkpoint_index.h"
#include "tensor/safetensors.h"

namespace xorbit {
namespace {

// Cuts between two calls of a filler fall on multiples of this from the first tensor byte, and wider types come first: so they
// are whole units in every tensor.
constexpr uint64_t kChunkBytes = 4 << 20;
static_assert(kChunkBytes % sizeof(uint64_t) == 0);

// Collects bytes and writes them a chunk at a time, so that many small tensors do not cost a system call each.
class ChunkWriter {
 public:
  ChunkWriter(FileOps& ops, const UniqueFd& fd, uint64_t offset_bytes) : ops_(ops), fd_(fd), offset_bytes_(offset_bytes) {
    chunk_.resize(kChunkBytes);
  }

  Status Append(uint32_t tensor_index, uint64_t byte_count, const TensorFiller& fill) {
    for (uint64_t done = 0; done < byte_count;) {
      const uint64_t room_bytes = std::min(byte_count - done, kChunkBytes - used_bytes_);
      XORBIT_RETURN_IF_ERROR(fill(tensor_index, done, MutableBytes(chunk_).subspan(used_bytes_, room_bytes)));
      done += room_bytes;
      used_bytes_ += room_bytes;
      if (used_bytes_ == kChunkBytes) XORBIT_RETURN_IF_ERROR(Flush());
    }
    return {};
  }

  Status Flush() {
    XORBIT_RETURN_IF_ERROR(ops_.Pwrite(fd_, ConstBytes(chunk_).first(used_bytes_), offset_bytes_));
    offset_bytes_ += std::exchange(used_bytes_, 0);
    return {};
  }

 private:
  FileOps& ops_;
  const UniqueFd& fd_;
  uint64_t offset_bytes_;  // in the file, where the chunk begins
  uint64_t used_bytes_ = 0;
  Buffer chunk_;
};

// The tensors `indices`, in the package's order, into an open, empty file.
Status WriteTensors(FileOps& ops, const UniqueFd& fd, const Layout& layout, std::vector<uint32_t> indices,
                    const TensorFiller& fill, const SafetensorsMetadata& metadata) {
  const std::vector<TensorSpec>& tensors = layout.tensors();
  std::sort(indices.begin(), indices.end(), [&](uint32_t a, uint32_t b) {
    return SafetensorsWritesBefore(tensors[a].dtype, tensors[a].name, tensors[b].dtype, tensors[b].name);
  });
  SafetensorsHeaderSpec spec;
  spec.metadata = metadata;
  for (const uint32_t i : indices) spec.entries.push_back({tensors[i].name, tensors[i].dtype, tensors[i].shape, 0, 0});
  XORBIT_ASSIGN_OR_RETURN(const Buffer header, BuildSafetensorsHeader(spec));
  XORBIT_RETURN_IF_ERROR(ops.Pwrite(fd, header, 0));
  ChunkWriter writer(ops, fd, header.size());
  for (const uint32_t i : indices) XORBIT_RETURN_IF_ERROR(writer.Append(i, tensors[i].byte_count, fill));
  XORBIT_RETURN_IF_ERROR(writer.Flush());
  return ops.Sync(fd);
}

Status WriteFile(FileOps& ops, const fs::path& path, const Layout& layout, std::vector<uint32_t> indices,
                 const TensorFiller& fill, const SafetensorsMetadata& metadata) {
  XORBIT_ASSIGN_OR_RETURN(const UniqueFd fd, ops.Create(path, /*exclusive=*/true));
  const Status status = WriteTensors(ops, fd, layout, std::move(indices), fill, metadata);
  if (status.ok()) return {};
  (void)ops.Unlink(path);  // the first error is the one to tell
  return status.WithContext(path.native());
}

// Tensor indices a file, in layout order.
std::vector<std::vector<uint32_t>> PlanFiles(const Layout& layout, uint64_t max_file_bytes) {
  std::vector<std::vector<uint32_t>> files;
  uint64_t room_bytes = 0;
  for (uint32_t i = 0; i < layout.tensors().size(); ++i) {
    const uint64_t byte_count = layout.tensors()[i].byte_count;
    if (files.empty() || byte_count > room_bytes) {
      files.emplace_back();
      room_bytes = std::max(max_file_bytes, byte_count);
    }
    files.back().push_back(i);
    room_bytes -= byte_count;
  }
  return files;
}

std::string FileNameOf(size_t file_index, size_t file_count) {
  return "model-" + ZeroPadded(file_index + 1, 5) + "-of-" + ZeroPadded(file_count, 5) + ".safetensors";
}

}  // namespace

TensorFiller FillFrom(std::vector<ConstBytes> tensors) {
  return [tensors = std::move(tensors)](uint32_t tensor_index, uint64_t offset_bytes, MutableBytes out) -> Status {
    std::memcpy(out.data(), tensors[tensor_index].data() + offset_bytes, out.size());
    return {};
  };
}

Status WriteCheckpointFile(FileOps& ops, const fs::path& file, const Layout& layout, const TensorFiller& fill,
                           const SafetensorsMetadata& metadata) {
  std::vector<uint32_t> indices(layout.tensors().size());
  for (uint32_t i = 0; i < indices.size(); ++i) indices[i] = i;
  return WriteFile(ops, file, layout, std::move(indices), fill, metadata);
}

Status WriteShardedCheckpoint(FileOps& ops, const fs::path& folder, const Layout& layout, const TensorFiller& fill,
                              uint64_t max_file_bytes, const SafetensorsMetadata& metadata) {
  const std::vector<std::vector<uint32_t>> files = PlanFiles(layout, max_file_bytes);
  CheckpointIndex index;
  index.tensors.resize(layout.tensors().size());
  XORBIT_ASSIGN_OR_RETURN(StagedFolder staged, StagedFolder::Make(ops, folder));
  for (uint32_t i = 0; i < files.size(); ++i) {
    index.file_names.push_back(FileNameOf(i, files.size()));
    for (const uint32_t tensor_index : files[i]) index.tensors[tensor_index] = {layout.tensors()[tensor_index].name, i};
    XORBIT_RETURN_IF_ERROR(WriteFile(ops, staged.path() / index.file_names[i], layout, files[i], fill, metadata));
  }
  const std::string text = BuildCheckpointIndex(index, layout.total_bytes());
  XORBIT_RETURN_IF_ERROR(WriteWholeFile(ops, staged.path() / kCheckpointIndexName, AsBytes(text)));
  return staged.Publish();
}

}  // namespace xorbit
