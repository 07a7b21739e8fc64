// Plans must cover every element exactly once, and the proof of coverage must agree with counting elements one by one.
#include "tensor/ownership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/testing/seed.h"
#include "tensor/tensor_test_util.h"

namespace xorbit {
namespace {

using ::testing::HasSubstr;

Layout MixedLayout() {
  return MakeLayout(
      {Tensor("a.bias", Dtype::kBF16, {7}), Tensor("a.weight", Dtype::kBF16, {6, 8}), Tensor("b.empty", Dtype::kF32, {0, 4}),
       Tensor("b.scalar", Dtype::kF32, {}), Tensor("c.fp4", Dtype::kF4, {4, 16}), Tensor("d.draft", Dtype::kBF16, {4, 4}, 1),
       Tensor("e.frozen", Dtype::kI64, {9}, 0, true), Tensor("f.experts", Dtype::kBF16, {2, 4, 8})},
      {"model", "draft"});
}

std::vector<const SegmentMap*> Pointers(const std::vector<std::vector<SegmentMap>>& owners) {
  std::vector<const SegmentMap*> all;
  for (const auto& segments : owners) {
    for (const SegmentMap& segment : segments) all.push_back(&segment);
  }
  return all;
}

// How often each element of each tensor is owned, by walking every run.
std::vector<std::vector<int>> OwnedCounts(const Layout& layout, const std::vector<const SegmentMap*>& segments) {
  std::vector<std::vector<int>> counts;
  for (const TensorSpec& tensor : layout.tensors()) counts.emplace_back(tensor.unit_count(), 0);
  for (const SegmentMap* segment : segments) {
    RunWalker walker(*segment, 0, segment->element_count());
    for (Run run; walker.Next(&run);) {
      for (uint64_t i = 0; i < run.element_count; ++i) ++counts[run.tensor_index][run.tensor_element + i];
    }
  }
  return counts;
}

bool CoveredByBruteForce(const Layout& layout, const std::vector<const SegmentMap*>& segments) {
  const auto counts = OwnedCounts(layout, segments);
  for (size_t i = 0; i < counts.size(); ++i) {
    const int wanted = layout.tensors()[i].frozen ? 0 : 1;
    for (const int count : counts[i]) {
      if (count != wanted) return false;
    }
  }
  return true;
}

TEST(PlanOwners, EverySplitCoversOnce) {
  const Layout layout = MixedLayout();
  for (const Split split : {Split::kWhole, Split::kRange, Split::kColumn}) {
    for (const uint32_t owner_count : {1U, 2U, 3U, 4U, 8U, 17U}) {
      const auto owners = PlanOwners(layout, owner_count, split);
      ASSERT_TRUE(owners.ok()) << owners.status().message();
      ASSERT_EQ(owners->size(), owner_count);
      EXPECT_TRUE(CoveredByBruteForce(layout, Pointers(*owners)));
      const Status proof = ProveCoverage(layout, Pointers(*owners));
      EXPECT_TRUE(proof.ok()) << proof.message();
      for (const auto& segments : *owners) {
        for (size_t i = 1; i < segments.size(); ++i) {
          EXPECT_LT(std::pair(segments[i - 1].group(), segments[i - 1].unit_bytes()),
                    std::pair(segments[i].group(), segments[i].unit_bytes()));
        }
      }
    }
  }
}

TEST(PlanOwners, ColumnsAreStridedWhereTheyDivide) {
  const Layout layout = MixedLayout();
  const auto owners = PlanOwners(layout, 4, Split::kColumn);
  ASSERT_TRUE(owners.ok());
  const std::vector<Part>& parts = (*owners)[1][1].parts();  // group 0, unit 2
  ASSERT_EQ((*owners)[1][1].unit_bytes(), 2U);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0], (Part{0, 1, {{2, 1}}}));
  EXPECT_EQ(parts[1], (Part{1, 2, {{6, 8}, {2, 1}}}));
  EXPECT_EQ(parts[2], (Part{7, 2, {{8, 8}, {2, 1}}}));
  EXPECT_EQ((*owners)[1][0].parts()[0], (Part{4, 2, {{4, 8}, {2, 1}}}));  // sixteen 4-bit columns are eight bytes
}

TEST(PlanOwners, WholeTensorsAreBalanced) {
  std::vector<TensorSpec> tensors;
  std::mt19937_64 random(7);
  uint64_t largest = 0;
  for (int i = 0; i < 500; ++i) {
    tensors.push_back(Tensor("t" + std::to_string(i), Dtype::kBF16, {random() % 1000}));
    largest = std::max(largest, tensors.back().shape[0] * 2);
  }
  const Layout layout = MakeLayout(std::move(tensors));
  const auto owners = PlanOwners(layout, 7, Split::kWhole);
  ASSERT_TRUE(owners.ok());
  uint64_t least = UINT64_MAX;
  uint64_t most = 0;
  for (const auto& segments : *owners) {
    uint64_t bytes = 0;
    for (const SegmentMap& segment : segments) bytes += segment.byte_count();
    least = std::min(least, bytes);
    most = std::max(most, bytes);
  }
  EXPECT_LE(most - least, largest);
}

TEST(PlanOwners, RefusesNonsense) {
  EXPECT_EQ(PlanOwners(MixedLayout(), 0, Split::kWhole).status().code(), Code::kUsage);
  EXPECT_EQ(PlanOwners(MixedLayout(), kMaxOwners + 1, Split::kWhole).status().code(), Code::kUsage);
  EXPECT_EQ(ParseSplit("rows").status().code(), Code::kUsage);
  EXPECT_EQ(*ParseSplit("column"), Split::kColumn);
}

// A box in a tensor's dimensions: [begin, end) in each.
struct Box {
  std::vector<uint64_t> begin;
  std::vector<uint64_t> end;
};

Part PartOf(const Box& box, const std::vector<uint64_t>& shape, bool drop_ones) {
  Part part;
  uint64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    const uint64_t count = box.end[d] - box.begin[d];
    part.origin += box.begin[d] * stride;
    if (d + 1 == shape.size() || count > 1 || !drop_ones) part.digits.insert(part.digits.begin(), {count, stride});
    stride *= shape[d];
  }
  return part;
}

// Cuts a box at random planes, again and again: what 2-D and 3-D meshes produce, and worse.
void CutAtRandom(std::mt19937_64& random, const Box& box, int depth, std::vector<Box>* out) {
  const size_t d = random() % box.begin.size();
  if (depth == 0 || box.end[d] - box.begin[d] < 2) return out->push_back(box);
  const uint64_t at = box.begin[d] + 1 + random() % (box.end[d] - box.begin[d] - 1);
  Box low = box;
  Box high = box;
  low.end[d] = at;
  high.begin[d] = at;
  CutAtRandom(random, low, depth - 1, out);
  CutAtRandom(random, high, depth - 1, out);
}

Status ProveParts(const Layout& layout, std::vector<Part> parts, bool* brute_force) {
  // One segment a part: the parts may overlap or repeat, which one segment's order would not always allow.
  std::vector<SegmentMap> segments;
  for (Part& part : parts) {
    auto map = SegmentMap::Make(layout, UnitBytesOf(layout.tensors()[0].dtype), 0, {std::move(part)});
    EXPECT_TRUE(map.ok()) << map.status().message();
    segments.push_back(std::move(map).value());
  }
  std::vector<const SegmentMap*> pointers;
  for (const SegmentMap& segment : segments) pointers.push_back(&segment);
  *brute_force = CoveredByBruteForce(layout, pointers);
  return ProveCoverage(layout, pointers);
}

TEST(ProveCoverage, AgreesWithBruteForceOnBoxes) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  int covered = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<uint64_t> shape(1 + random() % 4);
    for (uint64_t& dim : shape) dim = 1 + random() % 6;
    const Layout layout = MakeLayout({Tensor("t", Dtype::kBF16, shape)});
    std::vector<Box> boxes;
    CutAtRandom(random, {std::vector<uint64_t>(shape.size(), 0), shape}, static_cast<int>(random() % 5), &boxes);
    std::vector<Part> parts;
    for (const Box& box : boxes) parts.push_back(PartOf(box, shape, random() % 2 == 0));
    switch (random() % 4) {
      case 0:
        parts.erase(parts.begin() + static_cast<int64_t>(random() % parts.size()));
        break;
      case 1:
        parts.push_back(parts[random() % parts.size()]);
        break;
      case 2: {  // moves or shortens a part, where that leaves a valid one
        Part changed = parts[random() % parts.size()];
        if (random() % 2 == 0 && changed.origin > 0) {
          --changed.origin;
        } else if (changed.digits.front().count > 1) {
          --changed.digits.front().count;
        }
        parts[random() % parts.size()] = changed;
        break;
      }
      default:
        break;
    }
    std::shuffle(parts.begin(), parts.end(), random);
    bool brute_force = false;
    const Status proof = ProveParts(layout, parts, &brute_force);
    ASSERT_EQ(proof.ok(), brute_force) << "round " << round << ": " << proof.message();
    if (!proof.ok()) {
      EXPECT_EQ(proof.code(), Code::kCorrupt);
    }
    covered += brute_force ? 1 : 0;
  }
  EXPECT_GT(covered, 500);
  EXPECT_LT(covered, 2500);
}

TEST(ProveCoverage, AgreesWithBruteForceOnRandomDigits) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const Layout layout = MakeLayout({Tensor("t", Dtype::kU8, {48})});
  int covered = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<Part> parts;
    const size_t part_count = 1 + random() % 4;
    while (parts.size() < part_count) {
      Part part;
      part.origin = random() % 48;
      uint64_t extent = 1;
      for (size_t i = 0, digit_count = 1 + random() % 3; i < digit_count; ++i) {
        const uint64_t stride = i == 0 ? 1 : extent + random() % 4;
        const uint64_t count = 1 + random() % 6;
        part.digits.insert(part.digits.begin(), {count, stride});
        extent += (count - 1) * stride;
      }
      if (part.origin + extent <= 48) parts.push_back(part);
    }
    bool brute_force = false;
    const Status proof = ProveParts(layout, parts, &brute_force);
    ASSERT_EQ(proof.ok(), brute_force) << "round " << round << ": " << proof.message();
    covered += brute_force ? 1 : 0;
  }
  EXPECT_LT(covered, 20000);
}

TEST(ProveCoverage, NamesTheTensorAndTheElement) {
  const Layout layout = MakeLayout({Tensor("w", Dtype::kBF16, {4, 6}), Tensor("x", Dtype::kBF16, {3})});
  const auto prove = [&](std::vector<Part> first, std::vector<Part> second) {
    const auto a = SegmentMap::Make(layout, 2, 0, std::move(first));
    const auto b = SegmentMap::Make(layout, 2, 0, std::move(second));
    EXPECT_TRUE(a.ok() && b.ok());
    const std::vector<const SegmentMap*> segments = {&*a, &*b};
    return ProveCoverage(layout, segments).message();
  };
  const Part left = {0, 0, {{4, 6}, {2, 1}}};
  const Part right = {0, 2, {{4, 6}, {4, 1}}};
  const Part x = {1, 0, {{3, 1}}};
  EXPECT_EQ(prove({left, x}, {right}), "");
  EXPECT_EQ(prove({left}, {right}), "tensor 'x': element 0 is owned by nobody");
  EXPECT_EQ(prove({left, x}, {right, x}), "tensor 'x': element 0 is owned twice");
  EXPECT_EQ(prove({left, x}, {{0, 3, {{4, 6}, {3, 1}}}}), "tensor 'w': element 2 is owned by nobody");
  EXPECT_EQ(prove({left, x}, {{0, 2, {{3, 6}, {4, 1}}}}), "tensor 'w': element 20 is owned by nobody");
  EXPECT_EQ(prove({{0, 0, {{24, 1}}}, x}, {right}), "tensor 'w': element 2 is owned twice");
}

TEST(ProveCoverage, CostsNothingPerRunWhereItReduces) {
  // Forty thousand million runs: listing them would not end.
  const Layout layout = MakeLayout({Tensor("w", Dtype::kU8, {uint64_t{1} << 32, uint64_t{1} << 10, uint64_t{1} << 4})});
  for (const uint32_t owner_count : {2U, 16U}) {
    const auto owners = PlanOwners(layout, owner_count, Split::kColumn);
    ASSERT_TRUE(owners.ok());
    EXPECT_TRUE(ProveCoverage(layout, Pointers(*owners)).ok());
  }
}

TEST(ProveCoverage, RefusesWhatItWouldHaveToList) {
  const Layout layout = MakeLayout({Tensor("w", Dtype::kU8, {uint64_t{1} << 40})});
  const auto a = SegmentMap::Make(layout, 1, 0, {{0, 0, {{uint64_t{1} << 38, 3}, {1, 1}}}});
  ASSERT_TRUE(a.ok());
  const std::vector<const SegmentMap*> segments = {&*a};
  const Status proof = ProveCoverage(layout, segments);
  EXPECT_EQ(proof.code(), Code::kUnsupported);
  EXPECT_THAT(proof.message(), HasSubstr("too irregularly"));
}

TEST(ProveCoverage, DeepNestingStaysCheap) {
  // Every part has another largest stride, so that each level of the proof peels off one part and hands on all others.
  const Layout layout = MakeLayout({Tensor("w", Dtype::kU8, {uint64_t{1} << 60})});
  std::vector<SegmentMap> maps;
  for (uint32_t level = 1; level < 60; ++level) {
    for (int copy = 0; copy < 300; ++copy) {
      auto map = SegmentMap::Make(layout, 1, 0, {{0, 0, {{2, uint64_t{1} << level}, {1, 1}}}});
      ASSERT_TRUE(map.ok());
      maps.push_back(std::move(map).value());
    }
  }
  std::vector<const SegmentMap*> segments;
  for (const SegmentMap& map : maps) segments.push_back(&map);
  EXPECT_EQ(ProveCoverage(layout, segments).code(), Code::kCorrupt);
}

TEST(ProveCoverage, HundredThousandTensorsAndManyOwners) {
  std::vector<TensorSpec> tensors;
  for (uint64_t i = 0; i < 100'000; ++i) {
    tensors.push_back(
        Tensor("model.experts." + std::to_string(i), i % 3 == 0 ? Dtype::kF8E4M3 : Dtype::kBF16, {128 + i % 5, 64}));
  }
  const Layout layout = MakeLayout(std::move(tensors));
  const auto whole = PlanOwners(layout, 64, Split::kWhole);
  ASSERT_TRUE(whole.ok());
  EXPECT_TRUE(ProveCoverage(layout, Pointers(*whole)).ok());
  const auto columns = PlanOwners(layout, 8, Split::kColumn);
  ASSERT_TRUE(columns.ok());
  EXPECT_TRUE(ProveCoverage(layout, Pointers(*columns)).ok());
}

}  // namespace
}  // namespace xorbit
