// Indexes of sharded checkpoints. What is accepted must be sorted, stay in its folder, and read back the same after being
// written. Text as it comes, or (first byte 1) made up from the input, when a plain model knows what must be accepted and what
// it must say.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "tensor/checkpoint_index.h"

namespace xorbit {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

std::optional<CheckpointIndex> Check(ConstBytes text) {
  auto parsed = ParseCheckpointIndex(text);
  if (!parsed.ok()) {
    for (const char c : parsed.status().message()) Require(static_cast<uint8_t>(c) >= 0x20);
    return std::nullopt;
  }
  for (const std::string& name : parsed->file_names) Require(!name.empty() && name.find('/') == name.npos && name != "..");
  Require(std::is_sorted(parsed->file_names.begin(), parsed->file_names.end()));
  const auto again = ParseCheckpointIndex(AsBytes(BuildCheckpointIndex(*parsed, 0)));
  Require(again.ok() && again->file_names == parsed->file_names && again->tensors.size() == parsed->tensors.size());
  std::vector<HeldTensor> held;
  for (const CheckpointIndex::Tensor& tensor : again->tensors) held.push_back({tensor.name, tensor.file_index});
  Require(CheckIndexAgrees(*parsed, held).ok());
  return std::move(*parsed);
}

// What an index is made of, piece by piece, and what a reader must make of it.
class Model {
 public:
  // Two bytes each: what, and with which of a few names.
  void Add(uint8_t what, uint8_t which) {
    const std::string tensor = "t" + std::to_string(which % 16);
    const std::string file = "f" + std::to_string(which / 16 % 4) + ".safetensors";
    switch (what % 8) {
      case 0:
      case 1:
      case 2:
        AddEntry(tensor, '"' + file + '"');
        is_good_ = is_good_ && expected_.emplace(tensor, file).second;
        break;
      case 3: {  // another field, which may hold anything
        static const char* const kValues[] = {"null",      "-1.5e3",         "{}", R"({"weight_map":{"t1":["x"]}})",
                                              "[[],[{}]]", R"("weight_map")"};
        fields_ += R"("extra)" + std::to_string(which) + R"(":)" + kValues[which % std::size(kValues)] + ',';
        break;
      }
      case 4: {  // a file name that is none
        static const char* const kNames[] = {
            R"("../a.safetensors")", R"("")",   R"(".hidden")", R"("a\\b")", R"("a\u0000")", "7", "null",
            R"({"a":"b"})",          R"(["a"])"};
        AddEntry(tensor, kNames[which % std::size(kNames)]);
        is_good_ = false;
        break;
      }
      case 5:  // the same name, spelled otherwise
        AddEntry("\\u0074" + std::to_string(which % 16), '"' + file + '"');
        is_good_ = is_good_ && expected_.emplace(tensor, file).second;
        break;
      case 6:
        held_[tensor] = file;
        break;
      default:
        has_second_map_ = has_second_map_ || which == 77;
    }
  }

  void CheckAll() const {
    std::string text = "{" + fields_ + R"("weight_map":{)" + entries_ + "}";
    if (has_second_map_) text += R"(,"weight_map":{})";
    const auto parsed = Check(AsBytes(text + "}"));
    Require(parsed.has_value() == (is_good_ && !has_second_map_));
    if (!parsed) return;
    std::map<std::string, std::string> found;
    for (const CheckpointIndex::Tensor& tensor : parsed->tensors) found[tensor.name] = parsed->file_names[tensor.file_index];
    Require(found == expected_ && parsed->tensors.size() == expected_.size());
    CheckHeld(*parsed);
  }

 private:
  void AddEntry(const std::string& tensor, const std::string& value) {
    entries_ += (entries_.empty() ? "\"" : ",\"") + tensor + "\":" + value;
  }

  // Index and headers must agree exactly when they say the same.
  void CheckHeld(const CheckpointIndex& index) const {
    std::vector<HeldTensor> held;
    bool same = held_.size() == expected_.size();
    for (const auto& [tensor, file] : held_) {
      const auto at = std::find(index.file_names.begin(), index.file_names.end(), file);
      if (at == index.file_names.end()) return;  // no such file would have been opened
      held.push_back({tensor, static_cast<uint32_t>(at - index.file_names.begin())});
      const auto wanted = expected_.find(tensor);
      same = same && wanted != expected_.end() && wanted->second == file;
    }
    Require(CheckIndexAgrees(index, held).ok() == same);
  }

  bool is_good_ = true;
  bool has_second_map_ = false;
  std::string fields_;
  std::string entries_;
  std::map<std::string, std::string> expected_;
  std::map<std::string, std::string> held_;
};

}  // namespace
}  // namespace xorbit

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || data[0] != 1) {
    xorbit::Check({data, size});
    return 0;
  }
  xorbit::Model model;
  for (size_t i = 1; i + 1 < size; i += 2) model.Add(data[i], data[i + 1]);
  model.CheckAll();
  return 0;
}
