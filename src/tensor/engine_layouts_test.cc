// Every rule against the engine's own index arithmetic, written out element by element.
#include "tensor/engine_layouts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "base/testing/seed.h"
#include "tensor/live_proofs.h"
#include "tensor/name_pattern.h"
#include "tensor/random_live_map.h"
#include "tensor/tensor_test_util.h"

namespace xorbit {
namespace {

constexpr uint64_t kPadding = UINT64_MAX;

// Which canonical granule lies at each live one, as tensor x 1,000,000 + granule; kPadding where none does.
using Image = std::vector<uint64_t>;

Image ImageOf(const LiveMap& map, uint32_t region, uint32_t live_bits) {
  Image image(map.regions()[region].byte_count * 8 / live_bits, kPadding);
  const auto draw = [&](const Piece& piece) {
    if (piece.region_index != region) return;
    ForEachGranule(map, piece, [&](uint64_t from, uint64_t to) {
      EXPECT_EQ(image[to], kPadding);
      image[to] = piece.tensor_index * uint64_t{1'000'000} + from;
    });
  };
  for (const Piece& piece : map.pieces()) draw(piece);
  for (const ShadowBinding& shadow : map.shadows()) draw(shadow.piece);
  return image;
}

// The maps of all ranks, proven.
std::vector<LiveMap> PlanCohort(const Layout& layout, const EngineLayout& engine, EngineRank rank) {
  std::vector<LiveMap> maps;
  std::vector<const LiveMap*> cohort;
  for (rank.rank = 0; rank.rank < rank.world_size; ++rank.rank) {
    auto spec = PlanEngine(layout, engine, rank);
    EXPECT_TRUE(spec.ok()) << spec.status().message();
    if (!spec.ok()) return {};
    auto map = LiveMap::Make(layout, std::move(spec).value());
    EXPECT_TRUE(map.ok()) << map.status().message();
    if (!map.ok()) return {};
    EXPECT_EQ(ProveSingleWriter(layout, *map).message(), "");
    maps.push_back(std::move(map).value());
  }
  for (const LiveMap& map : maps) cohort.push_back(&map);
  EXPECT_EQ(ProveCohortCoverage(layout, cohort).message(), "");
  return maps;
}

std::string RefusalOf(const Layout& layout, const EngineLayout& engine, const EngineRank& rank = {}) {
  return PlanEngine(layout, engine, rank).status().message();
}

TEST(EngineLayouts, FuseQkvAndRepeatHeads) {
  // 8 query heads and 2 key heads of 4 rows over 4 ranks: two ranks share a key head.
  const Layout layout = MakeLayout(
      {Tensor("l.0.k", Dtype::kBF16, {8, 6}), Tensor("l.0.q", Dtype::kBF16, {32, 6}), Tensor("l.0.v", Dtype::kBF16, {8, 6})});
  EngineLayout engine;
  engine.rules = {{.pattern = "l.*.q", .target = "l.$1.qkv", .slice = Slice::kRows, .heads = 8, .slot = 0},
                  {.pattern = "l.*.k", .target = "l.$1.qkv", .slice = Slice::kRows, .heads = 2, .slot = 1},
                  {.pattern = "l.*.v", .target = "l.$1.qkv", .slice = Slice::kRows, .heads = 2, .slot = 2}};
  const auto maps = PlanCohort(layout, engine, {.world_size = 4, .tp_size = 4});
  ASSERT_EQ(maps.size(), 4U);
  for (uint64_t rank = 0; rank < 4; ++rank) {
    Image expected;
    for (uint64_t i = 0; i < 8 * 6; ++i) expected.push_back(1'000'000 + rank * 8 * 6 + i);
    for (uint64_t i = 0; i < 4 * 6; ++i) expected.push_back(rank / 2 * 4 * 6 + i);
    for (uint64_t i = 0; i < 4 * 6; ++i) expected.push_back(2'000'000 + rank / 2 * 4 * 6 + i);
    EXPECT_EQ(maps[rank].regions()[0].name, "l.0.qkv");
    EXPECT_EQ(ImageOf(maps[rank], 0, 16), expected);
  }
  engine.rules[1].heads = 3;
  EXPECT_EQ(RefusalOf(layout, engine, {.world_size = 4, .tp_size = 4}),
            "tensor 'l.0.k' has 8 rows or columns that are not 3 heads");
}

TEST(EngineLayouts, CutAFusedCheckpointBySections) {
  // One canonical qkv of 8 + 4 + 4 rows.
  const Layout layout = MakeLayout({Tensor("qkv", Dtype::kBF16, {16, 3})});
  EngineLayout engine;
  engine.rules = {{.pattern = "qkv", .slice = Slice::kRows, .sections = {{8, 4}, {4, 1}, {4, 1}}}};
  const auto maps = PlanCohort(layout, engine, {.world_size = 2, .tp_size = 2});
  ASSERT_EQ(maps.size(), 2U);
  Image expected;
  for (const uint64_t row : {4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}) {
    for (uint64_t column = 0; column < 3; ++column) expected.push_back(row * 3 + column);
  }
  EXPECT_EQ(ImageOf(maps[1], 0, 16), expected);
}

TEST(EngineLayouts, PadVocabularies) {
  const Layout layout = MakeLayout({Tensor("embed", Dtype::kBF16, {10, 2}), Tensor("head", Dtype::kBF16, {10, 2})});
  EngineLayout engine;
  engine.rules = {{.pattern = "embed", .slice = Slice::kRows, .pad_to = 12},
                  {.pattern = "head", .placement = Placement::kAlias, .target = "embed"}};
  auto maps = PlanCohort(layout, engine, {.world_size = 4, .tp_size = 4});
  ASSERT_EQ(maps.size(), 4U);
  EXPECT_EQ(ImageOf(maps[2], 0, 16), (Image{12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(ImageOf(maps[3], 0, 16), (Image{18, 19, kPadding, kPadding, kPadding, kPadding}));
  EXPECT_EQ(maps[0].alias_of(1), 0U);
  engine.rules[0].pad_to = 1;
  EXPECT_EQ(RefusalOf(layout, engine, {.world_size = 4, .tp_size = 4}),
            "tensor 'embed' has 10 rows or columns, which do not divide over 4 ranks");
}

TEST(EngineLayouts, CastAndDerive) {
  const Layout layout =
      MakeLayout({Tensor("bias", Dtype::kBF16, {4}), Tensor("kv_b", Dtype::kBF16, {4, 2}), Tensor("max", Dtype::kF32, {})});
  EngineLayout engine;
  engine.rules = {{.pattern = "bias", .placement = Placement::kShadow, .cast = Cast::kBf16ToF32, .slice = Slice::kRows},
                  {.pattern = "kv_b", .callback = "absorb", .slice = Slice::kRows},
                  {.pattern = "max", .placement = Placement::kDerived, .callback = "rescale"}};
  const auto maps = PlanCohort(layout, engine, {.world_size = 2, .tp_size = 2});
  ASSERT_EQ(maps.size(), 2U);
  EXPECT_EQ(maps[1].regions()[0], (LiveRegion{"bias", 8}));
  EXPECT_EQ(ImageOf(maps[1], 0, 32), (Image{2, 3}));
  EXPECT_EQ(maps[1].derived().size(), 2U);
  EXPECT_EQ(std::vector<uint32_t>(maps[1].kept_tensors().begin(), maps[1].kept_tensors().end()), (std::vector<uint32_t>{0, 2}));
}

TEST(EngineLayouts, SwizzledScalesAreOneClassOfFiveDigits) {
  // Two experts' gate and up scales of 64 x 8 each: a tile of 128 rows holds both.
  std::vector<TensorSpec> tensors;
  for (const char* name : {"e.0.gate", "e.0.up", "e.1.gate", "e.1.up"})
    tensors.push_back(Tensor(name, Dtype::kF8E4M3, {128, 8}));
  const Layout layout = MakeLayout(tensors);
  EngineLayout engine;
  engine.expert_count = 2;
  engine.rules = {{.pattern = "e.*.gate", .target = "w13", .slot = 0, .expert_capture = 1, .swizzle = true},
                  {.pattern = "e.*.up", .target = "w13", .slot = 1, .expert_capture = 1, .swizzle = true}};
  const auto maps = PlanCohort(layout, engine, {});
  ASSERT_EQ(maps.size(), 1U);
  ASSERT_EQ(maps[0].classes().size(), 1U);
  EXPECT_EQ(maps[0].pieces().size(), 4U);
  Image expected(2 * 256 * 8, kPadding);
  for (uint64_t expert = 0; expert < 2; ++expert) {
    for (uint64_t row = 0; row < 256; ++row) {
      for (uint64_t column = 0; column < 8; ++column) {
        const uint64_t tile = row / 128 * (8 / 4) + column / 4;
        const uint64_t at = expert * 256 * 8 + tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4;
        expected[at] = (expert * 2 + row / 128) * 1'000'000 + row % 128 * 8 + column;
      }
    }
  }
  EXPECT_EQ(ImageOf(maps[0], 0, 8), expected);

  const Layout large = MakeLayout({Tensor("scale", Dtype::kF8E4M3, {4096, 448})});
  const LiveMapSpec spec = PlanEngine(large, {.rules = {{.pattern = "scale", .swizzle = true}}}, {}).value();
  ASSERT_EQ(spec.pieces.size(), 1U);
  EXPECT_EQ(spec.classes[0].digit_count, 5U);
}

TEST(EngineLayouts, RepackHalfBytes) {
  const Layout layout = MakeLayout({Tensor("w", Dtype::kU8, {2, 8})});  // 16 half bytes a row
  EngineLayout engine;
  engine.rules = {{.pattern = "w", .slice = Slice::kColumns, .nibble_order = {0, 4, 1, 5, 2, 6, 3, 7}}};
  const auto maps = PlanCohort(layout, engine, {.world_size = 2, .tp_size = 2});
  ASSERT_EQ(maps.size(), 2U);
  EXPECT_EQ(ImageOf(maps[1], 0, 4), (Image{8, 10, 12, 14, 9, 11, 13, 15, 24, 26, 28, 30, 25, 27, 29, 31}));
  EXPECT_EQ(RefusalOf(layout, engine, {.world_size = 4, .tp_size = 4}),
            "tensor 'w' is cut inside a group of 8 places that the engine reorders");
}

TEST(EngineLayouts, MoveAndCopyExperts) {
  // Three experts in two groups of ranks with two slots each: expert 2 has two copies.
  const Layout layout = MakeLayout({Tensor("w", Dtype::kU16, {3, 2, 2})});
  EngineLayout engine;
  engine.expert_count = 3;
  engine.expert_slots = {2, 0, 1, 2};
  engine.rules = {{.pattern = "w", .stacks_experts = true}};
  const auto maps = PlanCohort(layout, engine, {.world_size = 2, .ep_size = 2});
  ASSERT_EQ(maps.size(), 2U);
  EXPECT_EQ(ImageOf(maps[0], 0, 16), (Image{8, 9, 10, 11, 0, 1, 2, 3}));
  EXPECT_EQ(ImageOf(maps[1], 0, 16), (Image{4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_TRUE(maps[0].pieces_of(0)[1].counted);
  EXPECT_FALSE(maps[1].pieces_of(0)[1].counted);
}

// The rules of docs/design/live-map.md, over a small model of one dense and one expert layer.
TEST(EngineLayouts, PlanTheModelOfTheDesignPage) {
  std::vector<TensorSpec> tensors = {Tensor("model.embed_tokens.weight", Dtype::kBF16, {250, 64}),
                                     Tensor("model.norm.weight", Dtype::kBF16, {64}),
                                     Tensor("lm_head.weight", Dtype::kBF16, {250, 64})};
  const auto add = [&](const std::string& name, Dtype dtype, std::vector<uint64_t> shape) {
    tensors.push_back(Tensor("model.layers." + name, dtype, std::move(shape)));
  };
  add("0.self_attn.q_proj.weight", Dtype::kBF16, {128, 64});
  add("0.self_attn.k_proj.weight", Dtype::kBF16, {32, 64});
  add("0.self_attn.v_proj.weight", Dtype::kBF16, {32, 64});
  add("0.self_attn.o_proj.weight", Dtype::kBF16, {64, 128});
  add("0.mlp.gate_proj.weight", Dtype::kBF16, {96, 64});
  add("0.mlp.up_proj.weight", Dtype::kBF16, {96, 64});
  add("0.mlp.down_proj.weight", Dtype::kBF16, {64, 96});
  for (const std::string expert : {"0", "1", "2", "3"}) {
    add("1.mlp.experts." + expert + ".gate_proj.weight_scale", Dtype::kF8E4M3, {128, 12});
    add("1.mlp.experts." + expert + ".up_proj.weight_scale", Dtype::kF8E4M3, {128, 12});
  }
  const EngineRule rows{.pattern = {}, .slice = Slice::kRows};
  const auto rule = [](EngineRule base, std::string pattern, std::string target, uint32_t slot, uint32_t heads) {
    base.pattern = std::move(pattern);
    base.target = std::move(target);
    base.slot = slot;
    base.heads = heads;
    return base;
  };
  const EngineRule scales{.slice = Slice::kRows, .interleave_rows = 64, .expert_capture = 2, .swizzle = true};
  EngineLayout engine;
  engine.expert_count = 4;
  engine.rules = {{.pattern = "**"},
                  {.pattern = "*.embed_tokens.weight", .slice = Slice::kRows, .pad_to = 256},
                  {.pattern = "lm_head.weight", .placement = Placement::kAlias, .target = "model.embed_tokens.weight"},
                  rule(rows, "**.q_proj.weight", "$1.qkv_proj.weight", 0, 32),
                  rule(rows, "**.k_proj.weight", "$1.qkv_proj.weight", 1, 8),
                  rule(rows, "**.v_proj.weight", "$1.qkv_proj.weight", 2, 8),
                  {.pattern = "**.o_proj.weight", .slice = Slice::kColumns},
                  {.pattern = "**.down_proj.weight", .slice = Slice::kColumns},
                  rule(rows, "**.gate_proj.weight", "$1.gate_up_proj.weight", 0, 0),
                  rule(rows, "**.up_proj.weight", "$1.gate_up_proj.weight", 1, 0),
                  rule(scales, "**.experts.*.up_proj.weight_scale", "$1.experts.w13_weight_scale", 0, 0),
                  rule(scales, "**.experts.*.gate_proj.weight_scale", "$1.experts.w13_weight_scale", 1, 0)};
  const auto maps = PlanCohort(MakeLayout(tensors), engine, {.world_size = 4, .tp_size = 4, .ep_size = 4});
  ASSERT_EQ(maps.size(), 4U);
  std::vector<std::string> regions;
  for (const LiveRegion& region : maps[3].regions()) regions.push_back(region.name + " " + std::to_string(region.byte_count));
  EXPECT_EQ(regions, (std::vector<std::string>{"model.embed_tokens.weight 8192", "model.layers.0.mlp.down_proj.weight 3072",
                                               "model.layers.0.mlp.gate_up_proj.weight 6144",
                                               "model.layers.0.self_attn.o_proj.weight 4096",
                                               "model.layers.0.self_attn.qkv_proj.weight 6144",
                                               "model.layers.1.mlp.experts.w13_weight_scale 3072", "model.norm.weight 128"}));
  EXPECT_EQ(maps[3].pieces().size(), 11U);  // one a tensor: 9 outside the experts, and an expert's two
}

TEST(EngineLayouts, NameWhatTheyRefuse) {
  const Layout layout =
      MakeLayout({Tensor("a", Dtype::kBF16, {4, 2}), Tensor("b", Dtype::kBF16, {4, 3}), Tensor("c", Dtype::kF4, {2, 3, 2}),
                  Tensor("e.9.w", Dtype::kBF16, {2}), Tensor("f", Dtype::kU8, {1}, 0, true)});
  const auto refusal = [&](std::vector<EngineRule> rules) {
    rules.insert(rules.begin(), {.pattern = "**"});
    return RefusalOf(layout, {.rules = std::move(rules), .expert_count = 4});
  };
  EXPECT_EQ(RefusalOf(layout, {.rules = {{.pattern = "b"}}}),
            "tensor 'a' has no rule; add one, or declare its presence group absent");
  EXPECT_EQ(refusal({{.pattern = "a", .target = "ab"}, {.pattern = "b", .target = "ab", .slot = 1}}),
            "tensor 'b' has other columns or elements than the tensor that lies in region 'ab' with 'a'");
  EXPECT_EQ(refusal({{.pattern = "a", .target = "a", .slot = 1}}), "region 'a' has an empty slot: no tensor fills it");
  EXPECT_EQ(refusal({{.pattern = "a", .interleave_rows = 3}}),
            "region 'a' has slots of rows that cannot take turns in groups of 3");
  EXPECT_EQ(refusal({{.pattern = "a", .swizzle = true}}), "tensor 'a' is swizzled but its elements are not bytes");
  EXPECT_EQ(refusal({{.pattern = "e.*.w", .expert_capture = 1}}), "tensor 'e.9.w' names the expert '9', but the engine has 4");
  EXPECT_EQ(refusal({{.pattern = "a", .placement = Placement::kAlias, .target = "z"}}),
            "tensor 'a' is tied to 'z', which the layout does not have");
  EXPECT_EQ(refusal({{.pattern = "a", .slice = Slice::kRows, .sections = {{3, 0}}}}), "tensor 'a' is longer than its sections");
  EXPECT_EQ(refusal({{.pattern = "a", .slice = Slice::kRows, .sections = {{3, 0}, {2, 0}}}}),
            "tensor 'a' is shorter than its sections");
  EXPECT_EQ(refusal({{.pattern = "a", .stacks_experts = true}}), "");
  EXPECT_EQ(refusal({{.pattern = "b", .target = "$1"}}), "'$1' asks for a capture that its pattern does not have");
  EXPECT_EQ(refusal({{.pattern = "a", .nibble_order = {0, 2}}}),
            "the rule for 'a' has an order of half bytes that is not a permutation");
}

TEST(NamePattern, CapturesShortestStretches) {
  using Captures = std::vector<std::string_view>;
  EXPECT_EQ(MatchName("l.*.w", "l.12.w"), Captures{"12"});
  EXPECT_EQ(MatchName("l.*.w", "l.1.2.w"), std::nullopt);
  EXPECT_EQ(MatchName("l.*.w", "l..w"), std::nullopt);
  EXPECT_EQ(MatchName("**.w", "a.b.w"), Captures{"a.b"});
  EXPECT_EQ(MatchName("*_proj", "q_proj_proj"), Captures{"q_proj"});
  EXPECT_EQ(MatchName("**", ""), Captures{""});
  EXPECT_EQ(MatchName("a", "ab"), std::nullopt);
  EXPECT_EQ(FillIn("x.$2.$1$", {"a", "b"}).value(), "x.b.a$");
}

// One region of random shape under random rules, and for every element what the engine's loader would do with it.
struct RandomEngine {
  explicit RandomEngine(Random& random) {
    rank.tp_size = 1U << Between(random, 0, 2);
    rank.world_size = rank.tp_size << Between(random, 0, 1);
    const bool experts = Between(random, 0, 1) == 1;
    if (experts) {
      rank.ep_size = rank.world_size >> Between(random, 0, 1);
      if (rank.ep_size == 0) rank.ep_size = 1;
      engine.expert_count = rank.ep_size * static_cast<uint32_t>(Between(random, 1, 3));
    }
    cuts = experts ? rank.world_size / rank.ep_size : rank.tp_size;
    slot_count = Between(random, 1, 3);
    const uint64_t kind = Between(random, 0, 2);
    EngineRule rule{.target = "region"};
    rule.slice = static_cast<Slice>(Between(random, 0, 2));
    rule.swizzle = kind == 1;
    rule.transpose = kind == 2 && Between(random, 0, 1) == 1;
    rule.expert_capture = experts ? 1 : 0;
    const uint64_t row_cuts = rule.slice == Slice::kRows ? cuts : 1;
    columns = Between(random, 1, 5) * 4;
    rows = row_cuts * Between(random, 1, 90);
    if (Between(random, 0, 2) == 0) {
      rule.interleave_rows = Between(random, 1, 16);
      rows = row_cuts * rule.interleave_rows * Between(random, 1, 5);
    } else if (rule.slice == Slice::kRows && Between(random, 0, 2) == 0) {
      rule.pad_to = row_cuts * 3;
      rows = Between(random, 1, 100);
    }
    for (uint64_t slot = 0; slot < slot_count; ++slot) {
      rule.slot = static_cast<uint32_t>(slot);
      rule.pattern = "e.*." + std::to_string(slot);
      engine.rules.push_back(rule);
      for (uint32_t expert = 0; expert < std::max(engine.expert_count, 1U); ++expert) {
        tensors.push_back(Tensor("e." + std::to_string(expert) + "." + std::to_string(slot), Dtype::kU8, {rows, columns}));
      }
    }
  }

  // The region on one rank: rows and columns as the loader would copy them.
  Image Expected(const Layout& layout, uint64_t rank_index, uint64_t region_granules) const {
    Image image(region_granules, kPadding);
    const EngineRule& rule = engine.rules[0];
    const bool experts = rule.expert_capture != 0;
    const uint64_t own_experts = experts ? engine.expert_count / rank.ep_size : 1;
    const uint64_t first_expert = experts ? rank_index / cuts * own_experts : 0;
    const uint64_t cut = rank_index % cuts;
    const uint64_t padded = (rows + rule.pad_to - 1) / rule.pad_to * rule.pad_to;
    const uint64_t own_rows = rule.slice == Slice::kRows ? padded / cuts : rows;
    const uint64_t own_columns = rule.slice == Slice::kColumns ? columns / cuts : columns;
    const uint64_t all_rows = own_rows * slot_count;
    const uint64_t block = region_granules / own_experts;
    const uint64_t column_tiles = (own_columns + 3) / 4;
    for (uint64_t expert = 0; expert < own_experts; ++expert) {
      for (uint64_t slot = 0; slot < slot_count; ++slot) {
        const uint32_t tensor = *layout.Find("e." + std::to_string(first_expert + expert) + "." + std::to_string(slot));
        for (uint64_t r = 0; r < own_rows; ++r) {
          for (uint64_t c = 0; c < own_columns; ++c) {
            const uint64_t from_row = rule.slice == Slice::kRows ? cut * own_rows + r : r;
            const uint64_t from_column = rule.slice == Slice::kColumns ? cut * own_columns + c : c;
            if (from_row >= rows) continue;
            uint64_t row = slot * own_rows + r;
            if (const uint64_t group = rule.interleave_rows; group != 0)
              row = (r / group * slot_count + slot) * group + r % group;
            uint64_t at = row * own_columns + c;
            if (rule.transpose) at = c * all_rows + row;
            if (rule.swizzle) at = (row / 128 * column_tiles + c / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + c % 4;
            image.at(expert * block + at) = tensor * uint64_t{1'000'000} + from_row * columns + from_column;
          }
        }
      }
    }
    return image;
  }

  EngineLayout engine;
  EngineRank rank;
  std::vector<TensorSpec> tensors;
  uint64_t cuts = 1;
  uint64_t slot_count = 1;
  uint64_t rows = 0;
  uint64_t columns = 0;
};

TEST(EngineLayoutsProperty, AgreeWithALoaderThatCopiesElements) {
  Random random(TestSeed());
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE("seed " + std::to_string(TestSeed()) + ", round " + std::to_string(round));
    const RandomEngine engine(random);
    const Layout layout = MakeLayout(engine.tensors);
    const auto maps = PlanCohort(layout, engine.engine, engine.rank);
    ASSERT_EQ(maps.size(), engine.rank.world_size);
    for (uint64_t rank = 0; rank < maps.size(); ++rank) {
      ASSERT_EQ(maps[rank].regions().size(), 1U);
      ASSERT_EQ(ImageOf(maps[rank], 0, 8), engine.Expected(layout, rank, maps[rank].regions()[0].byte_count))
          << "rank " << rank;
    }
  }
}

}  // namespace
}  // namespace xorbit
