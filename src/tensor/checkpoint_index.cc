#include "tensor/checkpoint_index.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/json.h"
#include "base/json_reader.h"
#include "base/text.h"

namespace xorbit {
namespace {

bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name[0] != '.' && name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

class IndexEvents final : public JsonEvents {
 public:
  Status BeginObject() override { return Begin(/*is_object=*/true); }
  Status EndObject() override { return End(); }
  Status BeginArray() override { return Begin(/*is_object=*/false); }
  Status EndArray() override { return End(); }
  Status Key(std::string_view key) override;
  Status String(std::string_view text) override { return in_map_ ? AddTensor(text) : Value(); }
  Status Unsigned(uint64_t) override { return Value(); }
  Status OtherValue() override { return Value(); }

  Result<CheckpointIndex> Take();

 private:
  Status Begin(bool is_object);
  Status End();
  Status Value() const;  // anything but the string that a mapped tensor must have
  Status AddTensor(std::string_view file_name);

  uint32_t depth_ = 0;
  bool map_comes_next_ = false;  // the value of "weight_map"
  bool in_map_ = false;          // at depth 2, inside it
  bool map_seen_ = false;
  std::string key_;  // inside the map
  CheckpointIndex index_;
  std::map<std::string, uint32_t, std::less<>> file_indices_;  // by order of appearance
};

Status IndexEvents::Begin(bool is_object) {
  if (depth_ == 0 && !is_object) return CorruptError("the index must be a JSON object");
  if (map_comes_next_ && !is_object) return Value();
  if (in_map_) return Value();
  in_map_ = std::exchange(map_comes_next_, false);
  ++depth_;
  return {};
}

Status IndexEvents::End() {
  --depth_;
  in_map_ = false;
  return {};
}

Status IndexEvents::Value() const {
  if (depth_ == 0) return CorruptError("the index must be a JSON object");
  if (in_map_) return CorruptError("weight_map must give tensor " + Quoted(key_) + " a file name");
  if (map_comes_next_) return CorruptError("weight_map must be an object");
  return {};
}

Status IndexEvents::Key(std::string_view key) {
  if (in_map_) key_ = key;
  if (depth_ != 1) return {};
  map_comes_next_ = key == "weight_map";
  if (map_comes_next_ && std::exchange(map_seen_, true)) return CorruptError("weight_map is there twice");
  return {};
}

Status IndexEvents::AddTensor(std::string_view file_name) {
  auto at = file_indices_.find(file_name);
  if (at == file_indices_.end()) {
    if (!IsPlainFileName(file_name)) {
      return CorruptError("weight_map puts tensor " + Quoted(key_) + " into " + Quoted(file_name) +
                          ", which is not a plain file name");
    }
    if (file_indices_.size() == kCheckpointMaxFiles) return CorruptError("weight_map names more than 65536 files");
    at = file_indices_.emplace(file_name, static_cast<uint32_t>(file_indices_.size())).first;
  }
  index_.tensors.push_back({key_, at->second});
  return {};
}

Result<CheckpointIndex> IndexEvents::Take() {
  if (!map_seen_) return CorruptError("the index has no weight_map");
  std::vector<uint32_t> sorted_indices(file_indices_.size());
  for (const auto& [name, appearance] : file_indices_) {
    sorted_indices[appearance] = static_cast<uint32_t>(index_.file_names.size());
    index_.file_names.push_back(name);
  }
  for (CheckpointIndex::Tensor& tensor : index_.tensors) tensor.file_index = sorted_indices[tensor.file_index];
  std::sort(index_.tensors.begin(), index_.tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(index_.tensors.begin(), index_.tensors.end(),
                                        [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice != index_.tensors.end()) return CorruptError("weight_map has tensor " + Quoted(twice->name) + " twice");
  return std::move(index_);
}

}  // namespace

Result<CheckpointIndex> ParseCheckpointIndex(ConstBytes json) {
  IndexEvents events;
  constexpr uint32_t kDepth = 64;  // of fields that are none of our business
  XORBIT_RETURN_IF_ERROR(ReadJson(json, kDepth, events));
  return events.Take();
}

std::string BuildCheckpointIndex(const CheckpointIndex& index, uint64_t total_bytes) {
  OrderedJson weight_map = OrderedJson::object();
  for (const CheckpointIndex::Tensor& tensor : index.tensors) {
    // Appends to the underlying vector: operator[] would search all names for each.
    weight_map.get_ref<OrderedJson::object_t&>().push_back({tensor.name, index.file_names[tensor.file_index]});
  }
  OrderedJson json;
  json["metadata"]["total_size"] = total_bytes;
  json["weight_map"] = std::move(weight_map);
  return json.dump(2, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace) + "\n";
}

Status CheckIndexAgrees(const CheckpointIndex& index, std::span<const HeldTensor> held) {
  size_t i = 0;
  size_t j = 0;
  while (i < index.tensors.size() || j < held.size()) {
    const bool only_held = i == index.tensors.size() || (j < held.size() && held[j].name < index.tensors[i].name);
    const bool only_indexed = !only_held && (j == held.size() || index.tensors[i].name < held[j].name);
    if (only_held) {
      return CorruptError("tensor " + Quoted(held[j].name) + " is in " + Quoted(index.file_names[held[j].file_index]) +
                          ", but the index does not have it");
    }
    if (only_indexed || index.tensors[i].file_index != held[j].file_index) {
      return CorruptError(
          "the index puts tensor " + Quoted(index.tensors[i].name) + " into " +
          Quoted(index.file_names[index.tensors[i].file_index]) +
          (only_indexed ? ", which does not hold it" : ", but it is in " + Quoted(index.file_names[held[j].file_index])));
    }
    ++i;
    ++j;
  }
  return {};
}

}  // namespace xorbit
