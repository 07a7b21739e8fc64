// Indexes of sharded checkpoints. What is accepted must be sorted, stay in its folder, and read back the same after being
// written.
#include <algorithm>
#include <cstdlib>

#include "tensor/checkpoint_index.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xorbit;
  const auto parsed = ParseCheckpointIndex({data, size});
  if (!parsed.ok()) {
    for (const char c : parsed.status().message()) Require(static_cast<uint8_t>(c) >= 0x20);
    return 0;
  }
  for (const std::string& name : parsed->file_names) Require(!name.empty() && name.find('/') == name.npos && name != "..");
  Require(std::is_sorted(parsed->file_names.begin(), parsed->file_names.end()));
  const auto again = ParseCheckpointIndex(AsBytes(BuildCheckpointIndex(*parsed, 0)));
  Require(again.ok() && again->file_names == parsed->file_names && again->tensors.size() == parsed->tensors.size());
  std::vector<HeldTensor> held;
  for (const CheckpointIndex::Tensor& tensor : again->tensors) held.push_back({tensor.name, tensor.file_index});
  Require(CheckIndexAgrees(*parsed, held).ok());
  return 0;
}
