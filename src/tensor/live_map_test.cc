// What a live map refuses, and that its search finds what its pieces say.
#include "tensor/live_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/testing/seed.h"
#include "tensor/live_cursor.h"
#include "tensor/live_proofs.h"
#include "tensor/random_live_map.h"
#include "tensor/tensor_test_util.h"

namespace xorbit {
namespace {

PieceClass Class(uint32_t granule_bits, std::vector<LiveDigit> digits) {
  PieceClass shape{.granule_bits = granule_bits, .digit_count = static_cast<uint32_t>(digits.size()), .digits = {}};
  std::copy(digits.begin(), digits.end(), shape.digits.begin());
  return shape;
}

// Two BF16 matrices and a byte vector; the first one's columns 4..7 of 8 lie in a region of their own.
class LiveMapRules : public testing::Test {
 protected:
  LiveMapRules()
      : layout_(
            MakeLayout({Tensor("a", Dtype::kBF16, {4, 8}), Tensor("b", Dtype::kBF16, {4, 8}, 1), Tensor("c", Dtype::kU8, {6})},
                       {"model", "draft"})) {
    spec_.regions = {{"columns", 32}, {"rest", 134}};
    spec_.classes = {Class(16, {{4, 8, 4}, {4, 1, 1}}), Class(16, {{32, 1, 1}}), Class(4, {{12, 1, 1}})};
    spec_.pieces = {{.tensor_index = 0, .class_index = 0, .region_index = 0, .origin = 4},
                    {.tensor_index = 1, .class_index = 1, .region_index = 1}};
  }

  void ExpectRefused(Code code, const std::string& message) {
    const auto map = LiveMap::Make(layout_, spec_);
    ASSERT_FALSE(map.ok());
    EXPECT_EQ(map.status().message(), message);
    EXPECT_EQ(map.status().code(), code);
  }

  Layout layout_;
  LiveMapSpec spec_;
};

TEST_F(LiveMapRules, SortsPiecesAndFindsThem) {
  std::swap(spec_.pieces[0], spec_.pieces[1]);
  spec_.epoch = 7;
  const LiveMap map = LiveMap::Make(layout_, spec_).value();
  EXPECT_EQ(map.epoch(), 7U);
  EXPECT_EQ(map.layout_digest(), layout_.digest());
  ASSERT_EQ(map.pieces().size(), 2U);
  ASSERT_EQ(map.pieces_of(0).size(), 1U);
  EXPECT_EQ(map.pieces_of(0)[0].origin, 4U);
  EXPECT_EQ(map.pieces_of(2).size(), 0U);
  EXPECT_EQ(map.track_count(2), 0U);
  EXPECT_EQ(map.granule_bits(2), 8U);

  LiveCursor cursor(map, 0, 0);
  EXPECT_FALSE(cursor.Find(0).present());
  EXPECT_EQ(cursor.Find(3).granule_count, 4U);
  const LiveRun& run = cursor.Find(13);
  EXPECT_TRUE(run.present());
  EXPECT_EQ(run.granule, 12U);
  EXPECT_EQ(run.LiveGranuleOf(13), 5U);
  EXPECT_FALSE(cursor.Find(16).present());
  EXPECT_FALSE(cursor.Find(1000).present());
}

TEST_F(LiveMapRules, RefusesWhatDoesNotFit) {
  const LiveMapSpec good = spec_;
  spec_.pieces[0].tensor_index = 3;
  ExpectRefused(Code::kCorrupt, "the live map names tensor 3, which the layout does not have");
  spec_ = good;
  spec_.pieces[0].class_index = 3;
  ExpectRefused(Code::kCorrupt, "tensor 'a' has a piece of a class that is not there");
  spec_ = good;
  spec_.pieces[0].region_index = 2;
  ExpectRefused(Code::kCorrupt, "tensor 'a' has a piece in a region that is not there");
  spec_ = good;
  spec_.regions[1].name = "columns";
  ExpectRefused(Code::kCorrupt, "the live map has two regions 'columns'");
  spec_ = good;
  spec_.pieces[0].origin = 5;
  ExpectRefused(Code::kCorrupt, "tensor 'a' has a piece that reaches past its end");
  spec_.pieces[0].origin = UINT64_MAX;
  ExpectRefused(Code::kCorrupt, "tensor 'a' has a piece that reaches past its end");
  spec_ = good;
  spec_.pieces[0].live_origin = 1;
  ExpectRefused(Code::kCorrupt, "tensor 'a' has a piece that reaches past the end of region 'columns'");
  spec_ = good;
  spec_.absent_groups = {1};
  ExpectRefused(Code::kCorrupt, "tensor 'b' has a place although its presence group 'draft' is absent");
  spec_.absent_groups = {2};
  ExpectRefused(Code::kCorrupt, "the live map declares a presence group absent that the layout does not have");
  spec_.absent_groups = {0, 0};
  ExpectRefused(Code::kCorrupt, "the live map declares a presence group absent twice");
  spec_ = good;
  spec_.pieces.push_back({.tensor_index = 2, .class_index = 1, .region_index = 0});
  ExpectRefused(Code::kCorrupt, "tensor 'c' has granules wider than its unit");
  spec_ = good;
  spec_.classes.push_back(Class(8, {{4, 1, 1}}));
  spec_.pieces.push_back({.tensor_index = 0, .class_index = 3, .region_index = 1, .live_origin = 64});
  ExpectRefused(Code::kCorrupt, "tensor 'a' has pieces of different granules");
}

TEST_F(LiveMapRules, RefusesClassesThatDoNotNest) {
  const auto refused = [&](std::vector<LiveDigit> digits, Code code, const std::string& why) {
    spec_.classes[0] = Class(16, std::move(digits));
    ExpectRefused(code, "class 0 of the live map, of tensor 'a': " + why);
  };
  const std::string canonical = "has canonical strides that are not nested, slowest first";
  refused({{4, 1, 4}, {4, 8, 1}}, Code::kCorrupt, canonical);
  refused({{4, 3, 4}, {4, 1, 1}}, Code::kCorrupt, canonical);
  refused({{4, 0, 4}}, Code::kCorrupt, canonical);
  refused({{UINT64_MAX, UINT64_MAX / 2, UINT64_MAX / 2}}, Code::kCorrupt, canonical);
  const std::string live = "has live strides that are not nested, so that places may meet";
  refused({{4, 8, 3}, {4, 1, 1}}, Code::kCorrupt, live);
  refused({{4, 8, 0}, {4, 1, 1}}, Code::kCorrupt, live);
  refused({{4, 8, 1}, {4, 1, 1}}, Code::kCorrupt, live);
  refused({{0, 8, 1}, {4, 1, 1}}, Code::kCorrupt, "has a digit of count 0");
  spec_.classes[2] = Class(12, {{1, 1, 1}});
  spec_.classes[0] = Class(16, {{1, 1, 1}});
  ExpectRefused(Code::kCorrupt, "class 2 of the live map: has granules of 12 bits instead of 4, 8, 16, 32 or 64");
}

TEST(PieceClass, IsNormalised) {
  const auto digits_of = [](std::vector<LiveDigit> digits) {
    const PieceClass shape = MakePieceClass(8, digits).value();
    return std::vector<LiveDigit>(shape.digits.begin(), shape.digits.begin() + shape.digit_count);
  };
  using Digits = std::vector<LiveDigit>;
  EXPECT_EQ(digits_of({{4, 8, 8}, {8, 1, 1}}), (Digits{{32, 1, 1}}));
  EXPECT_EQ(digits_of({{4, 8, 16}, {1, 99, 99}, {8, 1, 1}}), (Digits{{4, 8, 16}, {8, 1, 1}}));
  EXPECT_EQ(digits_of({{4, 2, 1}}), (Digits{{4, 2, 1}, {1, 1, 1}}));
  EXPECT_EQ(digits_of({{1, 5, 7}}), (Digits{{1, 1, 1}}));
  EXPECT_EQ(digits_of({}), (Digits{{1, 1, 1}}));
  // Eight digits that cannot be joined, and one more.
  Digits many;
  for (uint64_t i = 8; i-- > 0;) many.push_back({2, uint64_t{1} << (2 * i), uint64_t{1} << (2 * i)});
  EXPECT_EQ(digits_of(many).size(), 8U);
  for (LiveDigit& digit : many) digit = {2, digit.canonical_stride * 4, digit.live_stride * 4};
  many.push_back({2, 1, 1});
  EXPECT_EQ(MakePieceClass(8, many).status().code(), Code::kUnsupported);
}

TEST_F(LiveMapRules, ChecksBindings) {
  const LiveMapSpec good = spec_;
  spec_.shadows = {{Cast::kBf16ToF32, {.tensor_index = 0, .class_index = 1, .region_index = 1}}};
  ExpectRefused(Code::kCorrupt, "tensor 'a' has both pieces and a shadow");
  spec_.pieces = {};
  EXPECT_EQ(LiveMap::Make(layout_, spec_).status().message(), "");
  spec_.shadows[0].piece.live_origin = 2;  // in elements of four bytes: 32 of them fill 128 of 134
  ExpectRefused(Code::kCorrupt, "tensor 'a' has a piece that reaches past the end of region 'rest'");
  spec_.shadows[0] = {Cast::kF32ToBf16, spec_.shadows[0].piece};
  ExpectRefused(Code::kCorrupt, "tensor 'a' is cast from F32 but is not F32");
  spec_.shadows = {{Cast::kBf16ToF32, {.tensor_index = 2, .class_index = 2, .region_index = 1}}};
  ExpectRefused(Code::kCorrupt, "tensor 'c' has a shadow whose granule is not its unit");

  spec_ = good;
  spec_.aliases = {{1, 0}};
  ExpectRefused(Code::kCorrupt, "tensor 'b' is an alias and has a place of its own");
  spec_.pieces.pop_back();
  const LiveMap map = LiveMap::Make(layout_, spec_).value();
  EXPECT_EQ(map.alias_of(1), 0U);
  EXPECT_EQ(map.alias_of(0), std::nullopt);
  spec_.aliases = {{1, 0}, {1, 2}};
  ExpectRefused(Code::kCorrupt, "tensor 'b' is an alias of two tensors");
  spec_.aliases = {{2, 0}};
  ExpectRefused(Code::kCorrupt, "tensor 'c' is an alias of 'a', which has another dtype or size");
  spec_.aliases = {{0, 1}};
  spec_.pieces = {};
  ExpectRefused(Code::kCorrupt, "tensor 'a' is an alias of 'b', which has no place");

  spec_ = good;
  spec_.derived = {{2, "rescale", true}, {1, "absorb", true}, {2, "fuse", true}};
  const LiveMap derived = LiveMap::Make(layout_, spec_).value();
  EXPECT_EQ(std::vector<uint32_t>(derived.kept_tensors().begin(), derived.kept_tensors().end()), std::vector<uint32_t>{2});
  spec_.derived[2].callback = "rescale";
  ExpectRefused(Code::kCorrupt, "tensor 'c' names one callback twice");
}

TEST(LiveMap, TheCanonicalMapIsTheCheckpoint) {
  const Layout layout =
      MakeLayout({Tensor("a", Dtype::kBF16, {3, 5}), Tensor("e", Dtype::kF32, {0}), Tensor("f4", Dtype::kF4, {6})});
  const LiveMap map = CanonicalMap(layout);
  ASSERT_EQ(map.regions().size(), 3U);
  EXPECT_EQ(map.regions()[0], (LiveRegion{"a", 30}));
  EXPECT_EQ(map.pieces_of(1).size(), 0U);
  LiveCursor cursor(map, 2, 0);
  EXPECT_EQ(cursor.Find(2).live_granule, 0U);
  EXPECT_EQ(cursor.Find(2).region_index, 2U);
  EXPECT_EQ(cursor.Find(2).granule_count, 3U);
  EXPECT_TRUE(ProveSingleWriter(layout, map).ok());
  const LiveMap* ranks[] = {&map};
  EXPECT_TRUE(ProveCohortCoverage(layout, ranks).ok());
}

// A cursor finds what the slow walk lists: the same places, no others, and runs that are as long as they say.
TEST(LiveMapProperty, CursorsFindEveryPlace) {
  Random random(TestSeed());
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE("seed " + std::to_string(TestSeed()) + ", round " + std::to_string(round));
    const Layout layout = RandomLayout(random, 6, 700);
    const LiveMap map = RandomLiveMap(random, layout).Make();
    for (uint32_t tensor = 0; tensor < layout.tensors().size(); ++tensor) {
      const uint64_t granules = layout.tensors()[tensor].byte_count * 8 / map.granule_bits(tensor);
      std::multimap<uint64_t, std::pair<uint32_t, uint64_t>> expected;
      for (const Piece& piece : map.pieces_of(tensor)) {
        ForEachGranule(map, piece, [&](uint64_t canonical, uint64_t live) {
          expected.emplace(canonical, std::pair(piece.region_index, live));
        });
      }
      size_t found = 0;
      for (uint32_t track = 0; track < map.track_count(tensor); ++track) {
        LiveCursor cursor(map, tensor, track);
        for (uint64_t granule = 0; granule <= granules;) {
          const LiveRun run = cursor.Find(granule);
          ASSERT_EQ(run.granule, granule);  // the run before ended here
          for (uint64_t i = 0; run.present() && i < run.granule_count; ++i) {
            const auto [first, last] = expected.equal_range(granule + i);
            const std::pair place(run.region_index, run.live_granule + i);
            found += std::count_if(first, last, [&](const auto& entry) { return entry.second == place; });
          }
          granule = run.granule + run.granule_count;
        }
        LiveCursor jumping(map, tensor, track);
        for (int jump = 0; jump < 20; ++jump) {
          const uint64_t granule = Between(random, 0, granules);
          const LiveRun run = jumping.Find(granule);
          ASSERT_TRUE(run.holds(granule));
          LiveCursor fresh(map, tensor, track);
          const LiveRun& same = fresh.Find(granule);
          ASSERT_EQ(std::tuple(run.granule, run.granule_count, run.live_granule, run.region_index),
                    std::tuple(same.granule, same.granule_count, same.live_granule, same.region_index));
        }
      }
      ASSERT_EQ(found, expected.size());
    }
  }
}

// Scatter by cursors, gather by the slow walk: the canonical bytes come back, from every copy.
TEST(LiveMapProperty, ScatterAndGatherIsTheIdentity) {
  Random random(TestSeed() + 1);
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE("seed " + std::to_string(TestSeed()) + ", round " + std::to_string(round));
    const Layout layout = RandomLayout(random, 6, 700);
    const LiveMap map = RandomLiveMap(random, layout).Make();
    ASSERT_EQ(ProveSingleWriter(layout, map).message(), "");
    const LiveMap* ranks[] = {&map};
    ASSERT_EQ(ProveCohortCoverage(layout, ranks).message(), "");
    const RandomTensors tensors(random, layout);
    const auto canonical = tensors.bytes();
    std::vector<Buffer> live;
    for (const LiveRegion& region : map.regions()) live.emplace_back(region.byte_count);
    for (uint32_t tensor = 0; tensor < layout.tensors().size(); ++tensor) {
      const uint32_t bits = map.granule_bits(tensor);
      for (uint32_t track = 0; track < map.track_count(tensor); ++track) {
        LiveCursor cursor(map, tensor, track);
        for (uint64_t granule = 0; granule < canonical[tensor].size() * 8 / bits; ++granule) {
          const LiveRun& run = cursor.Find(granule);
          if (!run.present()) continue;
          WriteGranule(live[run.region_index], run.LiveGranuleOf(granule), bits, ReadGranule(canonical[tensor], granule, bits));
        }
      }
    }
    for (const Piece& piece : map.pieces()) {
      const uint32_t bits = map.granule_bits(piece.tensor_index);
      ForEachGranule(map, piece, [&](uint64_t from, uint64_t to) {
        ASSERT_EQ(ReadGranule(live[piece.region_index], to, bits), ReadGranule(canonical[piece.tensor_index], from, bits));
      });
    }
  }
}

}  // namespace
}  // namespace xorbit
