#include "codec/change_digest.h"

namespace xorbit {

std::vector<uint64_t> TensorKeysOf(const Layout& layout) {
  std::vector<uint64_t> keys;
  keys.reserve(layout.tensors().size());
  for (const TensorSpec& tensor : layout.tensors()) keys.push_back(TensorKeyOf(tensor.name));
  return keys;
}

}  // namespace xorbit
