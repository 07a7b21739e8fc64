#include "tensor/live_memory.h"

#include <string>

#include "base/text.h"

namespace xorbit {

Status CheckMemory(const Layout& layout, const LiveMemory& live) {
  const LiveMap& map = *live.map;
  if (map.layout_digest() != layout.digest()) return RefusedError("the live map was made for another layout than the delta's");
  if (live.regions.size() != map.regions().size()) return UsageError("the live map and the memory have different regions");
  for (size_t i = 0; i < live.regions.size(); ++i) {
    if (live.regions[i].size() == map.regions()[i].byte_count) continue;
    return RefusedError("live region " + Quoted(map.regions()[i].name) + " has " + std::to_string(live.regions[i].size()) +
                        " bytes where the map has " + std::to_string(map.regions()[i].byte_count));
  }
  if (live.kept.size() != map.kept_tensors().size())
    return UsageError("the live map and the memory have different kept copies");
  for (size_t i = 0; i < live.kept.size(); ++i) {
    const TensorSpec& tensor = layout.tensors()[map.kept_tensors()[i]];
    if (live.kept[i].size() == tensor.byte_count) continue;
    return RefusedError("the kept copy of tensor " + Quoted(tensor.name) + " has another size than the tensor");
  }
  return {};
}

}  // namespace xorbit
