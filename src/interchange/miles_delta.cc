#include "interchange/miles_delta.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/parallel.h"
#include "base/text.h"
#include "interchange/patched_tensor.h"
#include "tensor/safetensors.h"

namespace xorbit {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{256} << 10;

std::string ChecksumOf(ChecksumFormat format, ConstBytes bytes) {
  WeightChecksum checksum(format);
  checksum.Update(bytes);
  return checksum.Text();
}

// Appends the elements of a window that differ.
template <typename Unit>
void CollectChanges(const uint8_t* olds, const uint8_t* news, uint64_t element_count, WindowChanges* window) {
  window->count = 0;
  constexpr uint64_t kStrideElements = 64 / sizeof(Unit);  // compared at once: nearly all of them are equal
  for (uint64_t first = 0; first < element_count; first += kStrideElements) {
    const uint64_t end = std::min(first + kStrideElements, element_count);
    if (std::memcmp(olds + first * sizeof(Unit), news + first * sizeof(Unit), (end - first) * sizeof(Unit)) == 0) continue;
    for (uint64_t i = first; i < end; ++i) {
      const Unit old_bits = LoadLe<Unit>(olds + i * sizeof(Unit));
      const Unit new_bits = LoadLe<Unit>(news + i * sizeof(Unit));
      if (old_bits == new_bits) continue;
      window->positions[window->count] = static_cast<uint16_t>(i);
      StoreLe<Unit>(window->olds.data() + window->count * sizeof(Unit), old_bits);
      StoreLe<Unit>(window->xors.data() + window->count * sizeof(Unit), static_cast<Unit>(old_bits ^ new_bits));
      ++window->count;
    }
  }
}

void CollectChanges(uint32_t unit_bytes, const uint8_t* olds, ConstBytes news, WindowChanges* window) {
  const uint64_t element_count = news.size() / unit_bytes;
  switch (unit_bytes) {
    case 1:
      return CollectChanges<uint8_t>(olds, news.data(), element_count, window);
    case 2:
      return CollectChanges<uint16_t>(olds, news.data(), element_count, window);
    case 4:
      return CollectChanges<uint32_t>(olds, news.data(), element_count, window);
    default:
      return CollectChanges<uint64_t>(olds, news.data(), element_count, window);
  }
}

}  // namespace

Result<MilesDelta> MilesDelta::Open(const fs::path& folder, const Layout& layout) {
  MilesDelta delta;
  const fs::path index_path = folder / kMilesIndexFile;
  XORBIT_ASSIGN_OR_RETURN(const Buffer index_bytes, ReadWholeFile(index_path, kMilesMaxIndexBytes));
  Result<MilesIndex> index = ParseMilesIndex(AsText(index_bytes));
  if (!index.ok()) return index.status().WithContext(index_path.string());
  delta.index_ = std::move(index).value();
  delta.total_file_bytes_ = index_bytes.size();
  std::set<std::string> file_names;
  for (const auto& [name, file_name] : delta.index_.weight_map) file_names.insert(file_name);
  std::vector<bool> seen(layout.tensors().size());
  for (const std::string& file_name : file_names) {
    XORBIT_RETURN_IF_ERROR(delta.AddFile(folder, file_name, layout, &seen).WithContext((folder / file_name).string()));
  }
  // Every entry found is listed, for its file, once; equal numbers therefore mean that everything listed has been found.
  if (delta.entries_.size() != delta.index_.weight_map.size()) {
    return CorruptError(index_path.string() + ": lists tensors that the files do not hold");
  }
  std::sort(delta.entries_.begin(), delta.entries_.end(),
            [](const MilesEntry& a, const MilesEntry& b) { return a.tensor_index < b.tensor_index; });
  for (const MilesEntry& entry : delta.entries_) {
    const TensorSpec& tensor = layout.tensors()[entry.tensor_index];
    delta.names_.push_back(tensor.name);
    delta.unit_bytes_.push_back(UnitBytesOf(tensor.dtype));
  }
  return delta;
}

Status MilesDelta::AddFile(const fs::path& folder, const std::string& file_name, const Layout& layout,
                           std::vector<bool>* seen) {
  XORBIT_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(folder / file_name));
  XORBIT_ASSIGN_OR_RETURN(const SafetensorsFile parsed, ParseSafetensors(file.bytes()));
  for (const SafetensorsEntry& found : parsed.entries) {
    const auto listed = index_.weight_map.find(found.name);
    if (listed == index_.weight_map.end() || listed->second != file_name) {
      return CorruptError("holds " + Quoted(found.name) + ", which the index does not list for this file");
    }
    if (found.dtype != Dtype::kU8 || found.shape.size() != 1)
      return CorruptError("entry " + Quoted(found.name) + " is not flat U8");
    const std::optional<uint32_t> tensor_index = layout.Find(found.name);
    if (!tensor_index) {
      return RefusedError("changes " + Quoted(found.name) + ", which the checkpoint does not have; it is for another model");
    }
    if ((*seen)[*tensor_index]) return CorruptError("holds " + Quoted(found.name) + " twice");
    (*seen)[*tensor_index] = true;
    const auto checksum = parsed.metadata.find(found.name);
    if (checksum == parsed.metadata.end()) return CorruptError("has no checksum for " + Quoted(found.name));
    XORBIT_RETURN_IF_ERROR(CheckChecksumText(index_.checksum_format, checksum->second).WithContext(Quoted(found.name)));
    entries_.push_back({*tensor_index, file.bytes().subspan(found.begin, found.end - found.begin), checksum->second});
  }
  total_file_bytes_ += file.bytes().size();
  files_.push_back(std::move(file));
  return {};
}

Result<MilesVerdict> MilesDelta::VerifyAgainst(std::span<const ConstBytes> live, int threads) const {
  std::vector<MilesTensorState> states(entries_.size());
  XORBIT_RETURN_IF_ERROR(ParallelFor(threads, entries_.size(), [&](uint64_t i) -> Status {
    XORBIT_ASSIGN_OR_RETURN(states[i], StateOf(i, live[entries_[i].tensor_index]));
    return {};
  }));
  return Judge(states);
}

Result<MilesTensorState> MilesDelta::StateOf(size_t entry_index, ConstBytes live) const {
  Result<MilesTensorState> state = VerifyEntry(entries_[entry_index], live);
  if (!state.ok()) return state.status().WithContext("delta entry " + Quoted(names_[entry_index]));
  return state;
}

Result<MilesTensorState> MilesDelta::VerifyEntry(const MilesEntry& entry, ConstBytes live) const {
  XORBIT_ASSIGN_OR_RETURN(PatchedTensorReader reader, PatchedTensorReader::Open(index_.encoding, entry.bytes, live));
  WeightChecksum checksum(index_.checksum_format);
  Buffer piece(std::min<uint64_t>(kPieceBytes, live.size()));
  bool differs = false;
  for (uint64_t at = 0; at < live.size(); at += piece.size()) {
    const MutableBytes news = MutableBytes(piece).first(std::min<uint64_t>(piece.size(), live.size() - at));
    XORBIT_RETURN_IF_ERROR(reader.Next(news));
    checksum.Update(news);
    differs = differs || !std::equal(news.begin(), news.end(), live.begin() + at);
  }
  XORBIT_RETURN_IF_ERROR(reader.Finish());
  if (checksum.Text() == entry.checksum) return differs ? MilesTensorState::kBase : MilesTensorState::kUnchanged;
  if (ChecksumOf(index_.checksum_format, live) == entry.checksum) return MilesTensorState::kTarget;
  return MilesTensorState::kNeither;
}

MilesVerdict MilesDelta::Judge(std::span<const MilesTensorState> states) const {
  const auto first_name = [&](MilesTensorState state) {
    return names_[static_cast<size_t>(std::find(states.begin(), states.end(), state) - states.begin())];
  };
  const auto any = [&](MilesTensorState state) { return std::find(states.begin(), states.end(), state) != states.end(); };
  if (any(MilesTensorState::kNeither)) return {MilesState::kNeither, first_name(MilesTensorState::kNeither)};
  if (!any(MilesTensorState::kBase)) return {MilesState::kTarget, {}};
  if (any(MilesTensorState::kTarget)) return {MilesState::kInterrupted, first_name(MilesTensorState::kTarget)};
  return {MilesState::kBase, {}};
}

Status MilesDelta::ForEachChange(size_t entry_index, ConstBytes live, WindowChanges* scratch,
                                 const TensorChangesCallback& callback) const {
  const MilesEntry& entry = entries_[entry_index];
  const uint32_t unit_bytes = unit_bytes_[entry_index];
  Result<PatchedTensorReader> reader = PatchedTensorReader::Open(index_.encoding, entry.bytes, live);
  if (!reader.ok()) return reader.status().WithContext("delta entry " + Quoted(names_[entry_index]));
  scratch->Reserve(unit_bytes, /*with_olds=*/true);
  const uint64_t window_bytes = kWindowElements * unit_bytes;
  Buffer news(std::min<uint64_t>(window_bytes, live.size()));
  for (uint64_t at = 0; at < live.size(); at += window_bytes) {
    news.resize(std::min<uint64_t>(window_bytes, live.size() - at));
    XORBIT_RETURN_IF_ERROR(reader->Next(news).WithContext("delta entry " + Quoted(names_[entry_index])));
    CollectChanges(unit_bytes, live.data() + at, news, scratch);
    if (scratch->count == 0) continue;
    XORBIT_RETURN_IF_ERROR(callback({entry.tensor_index, unit_bytes, at / unit_bytes, scratch}));
  }
  return reader->Finish().WithContext("delta entry " + Quoted(names_[entry_index]));
}

bool HasMilesIndex(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kMilesIndexFile, ignored);
}

}  // namespace xorbit
