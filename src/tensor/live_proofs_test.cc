// Every way in which a live map can be wrong as a whole: overlaps, holes, double counts, shared memory.
#include "tensor/live_proofs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/testing/seed.h"
#include "tensor/random_live_map.h"
#include "tensor/tensor_test_util.h"

namespace xorbit {
namespace {

// Gate and up lie in one region, their rows in turn.
class Proofs : public testing::Test {
 protected:
  Proofs()
      : layout_(MakeLayout(
            {Tensor("gate", Dtype::kBF16, {4, 8}), Tensor("scale", Dtype::kBF16, {2}), Tensor("up", Dtype::kBF16, {4, 8})},
            {"model", "draft"})) {
    spec_.regions = {{"gate_up", 128}, {"scale", 8}};
    spec_.classes = {Rows(), MakePieceClass(16, std::vector<LiveDigit>{{2, 1, 1}}).value()};
    spec_.pieces = {{.tensor_index = 0, .class_index = 0, .region_index = 0},
                    {.tensor_index = 2, .class_index = 0, .region_index = 0, .live_origin = 8}};
    spec_.shadows = {{Cast::kBf16ToF32, {.tensor_index = 1, .class_index = 1, .region_index = 1}}};
  }

  static PieceClass Rows() { return MakePieceClass(16, std::vector<LiveDigit>{{4, 8, 16}, {8, 1, 1}}).value(); }

  std::string SingleWriter() { return ProveSingleWriter(layout_, LiveMap::Make(layout_, spec_).value()).message(); }
  std::string Coverage(const std::vector<LiveMapSpec>& specs) {
    std::vector<LiveMap> maps;
    for (const LiveMapSpec& spec : specs) maps.push_back(LiveMap::Make(layout_, spec).value());
    std::vector<const LiveMap*> ranks;
    for (const LiveMap& map : maps) ranks.push_back(&map);
    return ProveCohortCoverage(layout_, ranks).message();
  }

  Layout layout_;
  LiveMapSpec spec_;
};

TEST_F(Proofs, AcceptInterleavedRows) {
  EXPECT_EQ(SingleWriter(), "");
  EXPECT_EQ(Coverage({spec_}), "");
}

TEST_F(Proofs, RefuseTwoWritersOfOneByte) {
  spec_.pieces[1].live_origin = 7;
  EXPECT_EQ(SingleWriter(),
            "tensors 'gate' and 'up' would both write byte 14 of region 'gate_up'; if they are tied, declare an alias");
  spec_.pieces[1].live_origin = 0;
  EXPECT_EQ(SingleWriter(),
            "tensors 'gate' and 'up' would both write byte 0 of region 'gate_up'; if they are tied, declare an alias");
  spec_.pieces[1] = spec_.pieces[0];
  spec_.pieces[1].live_origin = 1;
  EXPECT_EQ(SingleWriter(), "tensor 'gate' would write byte 2 of region 'gate_up' twice");
}

TEST_F(Proofs, RefuseAShadowOverAPiece) {
  spec_.shadows[0].piece.region_index = 0;
  spec_.shadows[0].piece.live_origin = 3;  // bytes 12 to 19
  EXPECT_EQ(SingleWriter(),
            "tensors 'gate' and 'scale' would both write byte 12 of region 'gate_up'; if they are tied, declare an alias");
}

TEST_F(Proofs, SeeHalfBytes) {
  layout_ = MakeLayout({Tensor("high", Dtype::kU8, {4}), Tensor("low", Dtype::kU8, {4})});
  spec_ = {};
  spec_.regions = {{"packed", 8}};
  spec_.classes = {MakePieceClass(4, std::vector<LiveDigit>{{8, 1, 2}}).value()};
  spec_.pieces = {{.tensor_index = 0, .live_origin = 1}, {.tensor_index = 1, .live_origin = 0}};
  EXPECT_EQ(SingleWriter(), "");
  spec_.pieces[1].live_origin = 1;
  EXPECT_EQ(SingleWriter(),
            "tensors 'high' and 'low' would both write byte 0 of region 'packed'; if they are tied, declare an alias");
}

TEST_F(Proofs, CountEachElementOnceOverTheCohort) {
  // Rank 1 holds the same; if it counts too, everything counts twice.
  EXPECT_EQ(Coverage({spec_, spec_}), "tensor 'gate': element 0 is counted by ranks 0 and 1");
  LiveMapSpec replica = spec_;
  for (Piece& piece : replica.pieces) piece.counted = false;
  EXPECT_EQ(Coverage({spec_, replica}), "tensor 'scale': element 0 is counted by ranks 0 and 1");
  replica.shadows[0].piece.counted = false;
  EXPECT_EQ(Coverage({spec_, replica}), "");
  EXPECT_EQ(Coverage({replica}), "tensor 'gate': element 0 has no place that any rank counts");

  LiveMapSpec hole = spec_;
  hole.classes.push_back(MakePieceClass(16, std::vector<LiveDigit>{{3, 8, 16}, {8, 1, 1}}).value());
  hole.pieces[1].class_index = 2;
  EXPECT_EQ(Coverage({hole, replica}), "tensor 'up': element 24 has no place that any rank counts");
  hole.pieces.push_back({.tensor_index = 2, .class_index = 1, .region_index = 0, .origin = 23, .live_origin = 62});
  EXPECT_EQ(Coverage({hole}), "tensor 'up': element 23 is counted twice by rank 0");
}

TEST_F(Proofs, CountAliasesAndKeptCopies) {
  LiveMapSpec tied = spec_;
  tied.pieces.pop_back();
  EXPECT_EQ(Coverage({tied}), "tensor 'up': element 0 has no place that any rank counts");
  tied.aliases = {{2, 0}};
  EXPECT_EQ(Coverage({tied}), "");
  tied.aliases = {};
  tied.derived = {{2, "refresh", true}};
  EXPECT_EQ(Coverage({tied}), "");
  EXPECT_EQ(Coverage({tied, tied}), "tensor 'gate': element 0 is counted by ranks 0 and 1");
  tied.derived[0].counted = false;
  EXPECT_EQ(Coverage({tied}), "tensor 'up': element 0 has no place that any rank counts");
}

TEST_F(Proofs, LeaveOutAbsentGroupsAndFrozenTensors) {
  layout_ = MakeLayout({Tensor("a", Dtype::kU8, {4}), Tensor("d", Dtype::kU8, {4}, 1), Tensor("f", Dtype::kU8, {4}, 0, true)},
                       {"model", "draft"});
  LiveMapSpec spec;
  spec.regions = {{"a", 4}};
  spec.classes = {MakePieceClass(8, std::vector<LiveDigit>{{4, 1, 1}}).value()};
  spec.pieces = {{.tensor_index = 0}};
  EXPECT_EQ(Coverage({spec}), "tensor 'd': element 0 has no place that any rank counts");
  LiveMapSpec without = spec;
  without.absent_groups = {1};
  EXPECT_EQ(Coverage({without}), "");
  EXPECT_EQ(Coverage({without, spec}), "ranks 0 and 1 disagree whether presence group 'draft' is absent");
}

TEST_F(Proofs, CheckTheEnginesMemory) {
  const LiveMap map = LiveMap::Make(layout_, spec_).value();
  Buffer memory(200);
  const MutableBytes all(memory);
  using Memory = std::vector<MutableBytes>;
  EXPECT_EQ(CheckRegions(map, Memory{all.subspan(0, 128), all.subspan(128, 8)}).message(), "");
  EXPECT_EQ(CheckRegions(map, Memory{all.subspan(8, 128), all.subspan(0, 8)}).message(), "");
  EXPECT_EQ(CheckRegions(map, Memory{all.subspan(0, 128), all.subspan(127, 8)}).message(),
            "regions 'gate_up' and 'scale' share memory");
  EXPECT_EQ(CheckRegions(map, Memory{all.subspan(0, 128), all.subspan(128, 7)}).message(),
            "region 'scale' has 7 bytes; its live map declares 8");
  EXPECT_EQ(CheckRegions(map, Memory{all.subspan(0, 128)}).message(), "the engine shows 1 regions; its live map declares 2");
}

// Random maps, spoilt at random: the proofs agree with counting every bit.
TEST(ProofsProperty, AgreeWithCountingEveryBit) {
  Random random(TestSeed());
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE("seed " + std::to_string(TestSeed()) + ", round " + std::to_string(round));
    const Layout layout = RandomLayout(random, 5, 300);
    LiveMapSpec spec = RandomLiveMap(random, layout).spec();
    if (!spec.pieces.empty() && Between(random, 0, 1) == 0) {
      Piece& piece = spec.pieces[Between(random, 0, spec.pieces.size() - 1)];
      const uint64_t back = Between(random, 1, 20);
      switch (Between(random, 0, 3)) {
        case 0:
          piece.live_origin -= std::min(piece.live_origin, back);
          break;
        case 1:
          piece.origin -= std::min(piece.origin, back);
          break;
        case 2:
          piece.counted = !piece.counted;
          break;
        default:
          piece.live_origin = 0;
      }
    }
    const LiveMap map = LiveMap::Make(layout, spec).value();
    bool one_writer = true;
    std::set<std::pair<uint32_t, uint64_t>> written;  // half bytes
    bool counted_once = true;
    for (uint32_t tensor = 0; tensor < layout.tensors().size(); ++tensor) {
      const uint64_t scale = map.granule_bits(tensor) / 4;
      std::vector<int> counted(layout.tensors()[tensor].byte_count * 2, 0);
      for (const Piece& piece : map.pieces_of(tensor)) {
        ForEachGranule(map, piece, [&](uint64_t canonical, uint64_t live) {
          for (uint64_t i = 0; i < scale; ++i) {
            one_writer &= written.emplace(piece.region_index, live * scale + i).second;
            counted[canonical * scale + i] += piece.counted ? 1 : 0;
          }
        });
      }
      const bool exact = std::all_of(counted.begin(), counted.end(), [](int count) { return count == 1; });
      const bool left_out =
          layout.tensors()[tensor].frozen && std::count(counted.begin(), counted.end(), 0) == std::ssize(counted);
      counted_once &= exact || left_out;
    }
    const LiveMap* ranks[] = {&map};
    ASSERT_EQ(ProveSingleWriter(layout, map).ok(), one_writer) << ProveSingleWriter(layout, map).message();
    ASSERT_EQ(ProveCohortCoverage(layout, ranks).ok(), counted_once) << ProveCohortCoverage(layout, ranks).message();
    refused += one_writer && counted_once ? 0 : 1;
  }
  EXPECT_GT(refused, 30);
}

}  // namespace
}  // namespace xorbit
