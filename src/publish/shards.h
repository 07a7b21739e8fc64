// The parts that trainers commonly hold of a tensor, with the padding that their frameworks add. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "tensor/segment.h"

namespace xorbit {

// Rank `rank` of `rank_count`.
struct ShardPlace {
  uint32_t rank = 0;
  uint32_t rank_count = 1;
};

// All of them: the part of layout tensor `tensor_index` that this rank holds; nothing if its shard is all padding. kUsage, with
// the tensor's name, where the cut does not fall between units. Bytes of padding at the end of a rank's memory are not given to
// the publisher.

// FSDP over flattened parameters: ceil(elements / ranks) units a rank, padded at the end.
Result<std::optional<Part>> FlatShard(const Layout& layout, uint32_t tensor_index, ShardPlace place);

// Slices of the first dimension: row-parallel weights, FSDP2, experts stacked in one tensor. Padded vocabularies have
// `padded_rows` rows in the trainer, at least those of the tensor; 0 means the least multiple of the rank count.
Result<std::optional<Part>> RowShard(const Layout& layout, uint32_t tensor_index, ShardPlace place, uint64_t padded_rows = 0);

// Slices of the last dimension, which the rank count must divide.
Result<std::optional<Part>> ColumnShard(const Layout& layout, uint32_t tensor_index, ShardPlace place);

}  // namespace xorbit
