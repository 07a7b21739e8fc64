// Every cut must hold each element once over the ranks, padding must belong to nobody, and what cannot be cut must say so.
#include "publish/shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tensor/ownership.h"
#include "tensor/tensor_test_util.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

using Shard = std::function<Result<std::optional<Part>>(const Layout&, uint32_t, ShardPlace)>;

// The parts of all ranks of a one-tensor layout.
std::vector<Part> AllShards(const Layout& layout, uint32_t rank_count, const Shard& shard) {
  std::vector<Part> parts;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    const auto part = shard(layout, 0, {rank, rank_count}).value();
    if (part) parts.push_back(*part);
  }
  return parts;
}

Status Cover(const Layout& layout, std::vector<Part> parts) {
  const SegmentMap map = SegmentMap::Make(layout, UnitBytesOf(layout.tensors()[0].dtype), 0, std::move(parts)).value();
  const SegmentMap* pointer = &map;
  return ProveCoverage(layout, {&pointer, 1});
}

TEST(Shards, EveryCutCoversTheTensor) {
  const Layout layout = MakeLayout({Tensor("w", Dtype::kBF16, {30, 24})});
  for (const uint32_t ranks : {1U, 2U, 3U, 4U, 7U, 8U, 31U, 64U}) {
    EXPECT_TRUE(Cover(layout, AllShards(layout, ranks, FlatShard)).ok()) << ranks;
    const auto rows = [](const Layout& l, uint32_t t, ShardPlace place) { return RowShard(l, t, place); };
    EXPECT_TRUE(Cover(layout, AllShards(layout, ranks, rows)).ok()) << ranks;
    if (24 % ranks == 0) {
      EXPECT_TRUE(Cover(layout, AllShards(layout, ranks, ColumnShard)).ok()) << ranks;
    }
  }
}

TEST(Shards, PaddedVocabulariesGiveTheirLastRankLess) {
  const Layout layout = MakeLayout({Tensor("embedding", Dtype::kBF16, {1000, 8})});
  // 1024 rows over four ranks: 256 each, the last one holds 232 and 24 of padding.
  EXPECT_EQ(RowShard(layout, 0, {0, 4}, 1024).value(), (Part{0, 0, {{256 * 8, 1}}}));
  EXPECT_EQ(RowShard(layout, 0, {3, 4}, 1024).value(), (Part{0, 768 * 8, {{232 * 8, 1}}}));
  // Padded so far that a whole rank holds nothing else.
  EXPECT_EQ(RowShard(layout, 0, {3, 4}, 1336).value(), std::nullopt);
  EXPECT_THAT(RowShard(layout, 0, {0, 4}, 996).status().message(), HasSubstr("its 1000 rows are padded to 996"));
}

TEST(Shards, ColumnsOfALine) {
  const Layout layout = MakeLayout({Tensor("w", Dtype::kF32, {5, 12})});
  EXPECT_EQ(ColumnShard(layout, 0, {1, 3}).value(), (Part{0, 4, {{5, 12}, {4, 1}}}));
}

TEST(Shards, WhatCannotBeCutSaysSo) {
  const Layout layout =
      MakeLayout({Tensor("packed", Dtype::kF4, {4, 6}), Tensor("s", Dtype::kF32, {}), Tensor("w", Dtype::kF32, {4, 6})});
  EXPECT_THAT(ColumnShard(layout, 0, {0, 2}).status().message(), HasSubstr("tensor 'packed' cannot be cut so"));
  EXPECT_THAT(RowShard(layout, 1, {0, 2}).status().message(), HasSubstr("it is a scalar"));
  EXPECT_THAT(ColumnShard(layout, 2, {0, 4}).status().message(), HasSubstr("not 4 times whole units"));
  EXPECT_EQ(FlatShard(layout, 2, {4, 4}).status().message(), "rank 4 is not one of 4");
}

}  // namespace
}  // namespace xorbit
