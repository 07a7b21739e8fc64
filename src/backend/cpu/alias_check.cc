#include "backend/cpu/alias_check.h"

#include "base/text.h"
#include "base/unit.h"

namespace xorbit {

AliasCheck::AliasCheck(const Layout& layout, const LiveMap& map) : layout_(&layout), map_(&map) {
  for (const AliasBinding& alias : map.aliases()) {
    const uint64_t key = TensorKeyOf(layout.tensors()[alias.of_tensor_index].name);
    tied_[alias.tensor_index].key = key;
    tied_[alias.of_tensor_index].key = key;
  }
}

void AliasCheck::Add(const RecordTurn& turn) {
  if (tied_.empty() || !turn.segment->present) return;
  const DecodedRecord& record = *turn.planned.record;
  const uint32_t unit_bytes = turn.planned.unit_bytes;
  ForEachTensorRun(turn, [&](uint32_t tensor_index, uint64_t to_tensor, uint32_t begin, uint32_t end) {
    const auto found = tied_.find(tensor_index);
    if (found == tied_.end()) return;
    StateDigest sum;
    for (uint32_t i = begin; i < end; ++i) {
      const uint64_t bits = UnitBits(record.xors.data() + uint64_t{i} * unit_bytes, unit_bytes);
      sum += DigestOfElement(found->second.key, unit_bytes, to_tensor + record.offsets[i], bits);
    }
    const std::lock_guard lock(mutex_);
    found->second.sum += sum;
  });
}

Status AliasCheck::Finish() const {
  for (const AliasBinding& alias : map_->aliases()) {
    if (tied_.at(alias.tensor_index).sum == tied_.at(alias.of_tensor_index).sum) continue;
    const auto& tensors = layout_->tensors();
    return RefusedError("tensors " + Quoted(tensors[alias.tensor_index].name) + " and " +
                        Quoted(tensors[alias.of_tensor_index].name) +
                        " share their weights, but this delta changes them differently: bind them apart");
  }
  return {};
}

}  // namespace xorbit
