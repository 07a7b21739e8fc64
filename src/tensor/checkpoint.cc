#include "tensor/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/parallel.h"
#include "base/text.h"
#include "tensor/checkpoint_index.h"

namespace xorbit {
namespace {

struct FileList {
  std::vector<fs::path> paths;           // ascending
  std::optional<CheckpointIndex> index;  // its file_names are the names of `paths`
};

// Every *.safetensors in the folder; like a shell's pattern, not the hidden ones.
Result<std::vector<fs::path>> ListSafetensors(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path name = entry->path().filename();
    std::error_code ignored;
    if (name.extension() != ".safetensors" || name.native().front() == '.' || entry->is_directory(ignored)) continue;
    paths.push_back(folder / name);
    if (paths.size() > kCheckpointMaxFiles)
      return RefusedError("folder " + Quoted(folder.native()) + " holds more than 65536 files");
  }
  if (error) return ErrnoError("cannot list " + Quoted(folder.native()), error.value());
  if (paths.empty()) return NotFoundError("folder " + Quoted(folder.native()) + " holds no .safetensors file");
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<FileList> ListFolder(const fs::path& folder) {
  FileList list;
  const fs::path index_path = folder / kCheckpointIndexName;
  auto text = ReadWholeFile(index_path, kCheckpointIndexMaxBytes);
  if (text.status().code() == Code::kNotFound) {
    XORBIT_ASSIGN_OR_RETURN(list.paths, ListSafetensors(folder));
    return list;
  }
  XORBIT_RETURN_IF_ERROR(text.status());
  auto index = ParseCheckpointIndex(*text);
  if (!index.ok()) return index.status().WithContext(index_path.native());
  for (const std::string& name : index->file_names) list.paths.push_back(folder / name);
  list.index = std::move(*index);
  return list;
}

struct OpenedFile {
  CheckpointFile file;
  std::vector<SafetensorsEntry> entries;
};

Status ParseHeader(OpenedFile* opened) {
  auto parsed = ParseSafetensors(opened->file.map.bytes());
  if (!parsed.ok()) return parsed.status().WithContext(opened->file.path.native());
  opened->file.header_bytes = parsed->header_bytes;
  opened->entries = std::move(parsed->entries);
  return {};
}

// Runs body(index) for all files side by side: on network file systems each costs a round trip. Of several bad files the first
// by name is reported, whichever thread was faster.
template <typename Body>
Status ForEachFile(size_t count, Body&& body) {
  std::vector<Status> results(count);
  XORBIT_RETURN_IF_ERROR(ParallelFor(DefaultThreadCount(), count, [&](uint64_t i) -> Status {
    results[i] = body(i);
    return {};
  }));
  for (Status& result : results) XORBIT_RETURN_IF_ERROR(std::move(result));
  return {};
}

Result<std::vector<OpenedFile>> OpenAll(const std::vector<fs::path>& paths) {
  std::vector<OpenedFile> opened(paths.size());
  XORBIT_RETURN_IF_ERROR(ForEachFile(paths.size(), [&](uint64_t i) -> Status {
    opened[i].file.path = paths[i];
    XORBIT_ASSIGN_OR_RETURN(opened[i].file.map, MappedFile::Open(paths[i]));
    return {};
  }));
  uint64_t json_bytes = 0;  // at most kCheckpointMaxFiles of kSafetensorsMaxHeaderBytes: no overflow
  for (const OpenedFile& one : opened) json_bytes += SafetensorsJsonBytes(one.file.map.bytes());
  if (json_bytes > kCheckpointMaxHeaderBytes) {
    return CorruptError("the headers of " + std::to_string(paths.size()) + " files have " + std::to_string(json_bytes) +
                        " bytes in all, over the limit of " + std::to_string(kCheckpointMaxHeaderBytes));
  }
  XORBIT_RETURN_IF_ERROR(ForEachFile(paths.size(), [&](uint64_t i) { return ParseHeader(&opened[i]); }));
  return opened;
}

struct Held {
  SafetensorsEntry* entry = nullptr;
  uint32_t file_index = 0;
};

// All entries in layout order; a tensor that two files hold is refused.
Result<std::vector<Held>> OrderByName(std::vector<OpenedFile>& opened) {
  std::vector<Held> held;
  for (uint32_t i = 0; i < opened.size(); ++i) {
    for (SafetensorsEntry& entry : opened[i].entries) held.push_back({&entry, i});
  }
  if (held.size() > UINT32_MAX) return CorruptError("more than 2^32 tensors");
  std::sort(held.begin(), held.end(), [](const Held& a, const Held& b) { return a.entry->name < b.entry->name; });
  const auto twice =
      std::adjacent_find(held.begin(), held.end(), [](const Held& a, const Held& b) { return a.entry->name == b.entry->name; });
  if (twice == held.end()) return held;
  const auto file_of = [&](const Held& one) { return Quoted(opened[one.file_index].file.path.filename().native()); };
  return CorruptError("tensor " + Quoted(twice->entry->name) + " is in both " + file_of(twice[0]) + " and " +
                      file_of(twice[1]) + ": name the one file that is meant, or add an index");
}

Status CheckIndex(const CheckpointIndex& index, const std::vector<Held>& held) {
  std::vector<HeldTensor> named;
  named.reserve(held.size());
  for (const Held& one : held) named.push_back({one.entry->name, one.file_index});
  return CheckIndexAgrees(index, named);
}

}  // namespace

Result<Checkpoint> Checkpoint::Open(const fs::path& path) {
  std::error_code error;
  const fs::file_status file_status = fs::status(path, error);
  if (!fs::exists(file_status)) {
    return ErrnoError("cannot open checkpoint " + Quoted(path.native()), error ? error.value() : ENOENT);
  }
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  checkpoint.is_folder_ = fs::is_directory(file_status);
  FileList list;
  if (checkpoint.is_folder_) {
    XORBIT_ASSIGN_OR_RETURN(list, ListFolder(path));
  } else {
    list.paths = {path};
  }
  XORBIT_ASSIGN_OR_RETURN(std::vector<OpenedFile> opened, OpenAll(list.paths));
  auto held = OrderByName(opened);
  if (!held.ok()) return held.status().WithContext(path.native());
  if (held->empty()) return NotFoundError("checkpoint " + Quoted(path.native()) + " holds no tensors");
  if (list.index) XORBIT_RETURN_IF_ERROR(CheckIndex(*list.index, *held).WithContext(path.native()));

  std::vector<TensorSpec> tensors;
  tensors.reserve(held->size());
  checkpoint.locations_.reserve(held->size());
  for (const Held& one : *held) {
    checkpoint.locations_.push_back({one.file_index, one.entry->begin});
    TensorSpec& tensor = tensors.emplace_back();
    tensor.name = std::move(one.entry->name);
    tensor.dtype = one.entry->dtype;
    tensor.shape = std::move(one.entry->shape);
  }
  auto layout = Layout::Make(std::move(tensors));  // sorted already, so locations_ keep their places
  if (!layout.ok()) return layout.status().WithContext(path.native());
  checkpoint.layout_ = std::move(*layout);
  for (OpenedFile& one : opened) checkpoint.files_.push_back(std::move(one.file));
  return checkpoint;
}

ConstBytes Checkpoint::tensor_bytes(uint32_t tensor_index) const {
  const TensorLocation& location = locations_[tensor_index];
  return files_[location.file_index].map.bytes().subspan(location.offset_bytes, layout_.tensors()[tensor_index].byte_count);
}

std::vector<ConstBytes> Checkpoint::all_tensor_bytes() const {
  std::vector<ConstBytes> bytes(locations_.size());
  for (uint32_t i = 0; i < bytes.size(); ++i) bytes[i] = tensor_bytes(i);
  return bytes;
}

}  // namespace xorbit
