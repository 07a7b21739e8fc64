// The walk over a segment must visit the canonical positions that its digits mean, whatever range is asked for, and digits may
// be anybody's.
#include "tensor/segment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "base/testing/seed.h"
#include "tensor/random_model.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

TensorSpec Spec(std::string name, Dtype dtype, std::vector<uint64_t> shape) {
  TensorSpec spec;
  spec.name = std::move(name);
  spec.dtype = dtype;
  spec.shape = std::move(shape);
  return spec;
}

// The definition: every combination of digit values, slowest digit first.
std::vector<uint64_t> PositionsOf(const Part& part) {
  std::vector<uint64_t> positions = {part.origin};
  for (const Digit& digit : part.digits) {
    std::vector<uint64_t> next;
    for (const uint64_t position : positions) {
      for (uint64_t i = 0; i < digit.count; ++i) next.push_back(position + i * digit.stride);
    }
    positions = std::move(next);
  }
  return positions;
}

// Nested digits that reach at most `extent` elements.
Part RandomPart(Random& random, uint32_t tensor_index, uint64_t extent) {
  Part part;
  part.tensor_index = tensor_index;
  uint64_t reach = Between(random, 1, std::min<uint64_t>(extent, 9));
  part.digits = {Digit{reach, 1}};
  while (part.digits.size() < kMaxDigits && Between(random, 0, 3) != 0) {
    const uint64_t stride = reach + Between(random, 0, 5);
    const uint64_t most = (extent - reach) / stride + 1;
    const uint64_t count = Between(random, 1, std::min<uint64_t>(most, 4));
    part.digits.insert(part.digits.begin(), Digit{count, stride});
    reach += (count - 1) * stride;
  }
  part.origin = Between(random, 0, extent - reach);
  return part;
}

TEST(SegmentTest, FindsTheFirstPartThatReachesAnElement) {
  const auto seed = TestSeed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const Layout layout = Layout::Make({Spec("a", Dtype::kU8, {100}), Spec("b", Dtype::kU8, {100})}).value();
  for (int round = 0; round < 300; ++round) {
    std::vector<Part> parts;
    for (uint64_t i = Between(random, 0, 6); i > 0; --i) parts.push_back(RandomPart(random, random() % 2, 100));
    const auto place = [](const Part& part) { return std::pair(part.tensor_index, part.origin); };
    std::sort(parts.begin(), parts.end(), [&](const Part& a, const Part& b) { return place(a) < place(b); });
    const auto map = SegmentMap::Make(layout, 1, 0, parts);
    if (!map.ok()) continue;  // two parts with one origin
    for (uint32_t tensor_index = 0; tensor_index < 2; ++tensor_index) {
      for (uint64_t element = 0; element < 100; ++element) {
        size_t wanted = 0;
        while (wanted < parts.size() &&
               (parts[wanted].tensor_index < tensor_index ||
                (parts[wanted].tensor_index == tensor_index && PositionsOf(parts[wanted]).back() < element))) {
          ++wanted;
        }
        EXPECT_EQ(map->FirstPartReaching(tensor_index, element), wanted);
      }
    }
  }
}

TEST(SegmentTest, WalksLikeTheDefinition) {
  const auto seed = TestSeed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const Layout layout = Layout::Make({Spec("a", Dtype::kBF16, {2000}), Spec("b", Dtype::kF16, {100, 50})}).value();
  for (int round = 0; round < 300; ++round) {
    std::vector<Part> parts;
    for (uint32_t tensor = 0; tensor < 2; ++tensor) {
      std::vector<Part> of_tensor;
      for (uint64_t i = Between(random, 0, 4); i > 0; --i) {
        of_tensor.push_back(RandomPart(random, tensor, layout.tensors()[tensor].unit_count()));
      }
      std::sort(of_tensor.begin(), of_tensor.end(), [](const Part& x, const Part& y) { return x.origin < y.origin; });
      const auto same = [](const Part& x, const Part& y) { return x.origin == y.origin; };
      of_tensor.erase(std::unique(of_tensor.begin(), of_tensor.end(), same), of_tensor.end());
      parts.insert(parts.end(), of_tensor.begin(), of_tensor.end());
    }
    std::vector<std::pair<uint32_t, uint64_t>> wanted;
    for (const Part& part : parts) {
      const std::vector<uint64_t> positions = PositionsOf(part);
      ASSERT_EQ(positions.size(), part.element_count());
      ASSERT_TRUE(std::is_sorted(positions.begin(), positions.end()));
      for (const uint64_t position : positions) wanted.push_back({part.tensor_index, position});
    }
    const auto made = SegmentMap::Make(layout, 2, 0, parts);
    ASSERT_TRUE(made.ok()) << made.status().message();
    ASSERT_EQ(made->element_count(), wanted.size());
    ASSERT_EQ(made->byte_count(), 2 * wanted.size());

    const uint64_t first = Between(random, 0, wanted.size());
    const uint64_t count = Between(random, 0, wanted.size() - first);
    std::vector<std::pair<uint32_t, uint64_t>> got;
    RunWalker walker(*made, first, count);
    for (xorbit::Run run; walker.Next(&run);) {
      ASSERT_EQ(run.segment_element, first + got.size());
      ASSERT_GT(run.element_count, 0);
      for (uint64_t i = 0; i < run.element_count; ++i) got.push_back({run.tensor_index, run.tensor_element + i});
    }
    const auto from = wanted.begin() + static_cast<ptrdiff_t>(first);
    ASSERT_TRUE(std::equal(got.begin(), got.end(), from, from + static_cast<ptrdiff_t>(count))) << round;

    if (wanted.empty()) continue;
    const uint64_t element = Between(random, 0, wanted.size() - 1);
    const xorbit::Run run = RunAt(*made, element);
    ASSERT_EQ(run.tensor_index, wanted[element].first);
    ASSERT_EQ(run.tensor_element, wanted[element].second);
    ASSERT_EQ(run.segment_element, element);
    const size_t part = made->PartAt(element);
    ASSERT_LE(made->part_start(part), element);
    ASSERT_LT(element, made->part_start(part + 1));
  }
}

class HostilePartTest : public testing::Test {
 protected:
  std::string ErrorOf(std::vector<Part> parts, uint32_t unit_bytes = 2, uint32_t group = 0) {
    const auto map = SegmentMap::Make(layout_, unit_bytes, group, std::move(parts));
    if (map.ok()) return "";
    EXPECT_EQ(map.status().code(), Code::kCorrupt);
    return map.status().message();
  }

  static Layout MakeLayout() {
    std::vector<TensorSpec> tensors = {Spec("a", Dtype::kBF16, {100}), Spec("b", Dtype::kBF16, {10}),
                                       Spec("c", Dtype::kF32, {10}), Spec("d", Dtype::kBF16, {10}),
                                       Spec("huge", Dtype::kBF16, {(uint64_t{1} << 60) - 1})};
    tensors[1].frozen = true;
    tensors[3].group = 1;
    return Layout::Make(std::move(tensors), {"model", "draft"}).value();
  }

  Layout layout_ = MakeLayout();
};

TEST_F(HostilePartTest, Bounds) {
  EXPECT_EQ(ErrorOf({{0, 0, {{100, 1}}}}), "");
  EXPECT_EQ(ErrorOf({}), "");
  EXPECT_THAT(ErrorOf({{0, 1, {{100, 1}}}}), HasSubstr("part of tensor 'a' reaches past the tensor's end"));
  EXPECT_THAT(ErrorOf({{0, UINT64_MAX, {{2, 1}}}}), HasSubstr("past the tensor's end"));
  EXPECT_THAT(ErrorOf({{0, 0, {{2, 99}, {2, 1}}}}), HasSubstr("past the tensor's end"));
  EXPECT_EQ(ErrorOf({{0, 0, {{2, 98}, {2, 1}}}}), "");
  EXPECT_THAT(ErrorOf({{0, 0, {{UINT64_MAX, 1}}}}), HasSubstr("past"));
  EXPECT_THAT(ErrorOf({{0, 0, {{UINT64_MAX, UINT64_MAX}, {1, 1}}}}), HasSubstr("past 2^64 elements"));
  EXPECT_THAT(ErrorOf({{0, 0, {{2, UINT64_MAX}, {1, 1}}}}), HasSubstr("past"));
  EXPECT_THAT(ErrorOf({{9, 0, {{1, 1}}}}), HasSubstr("does not have"));
}

TEST_F(HostilePartTest, Digits) {
  EXPECT_THAT(ErrorOf({{0, 0, {}}}), HasSubstr("1 to 8 digits"));
  EXPECT_THAT(ErrorOf({{0, 0, std::vector<Digit>(9, Digit{1, 1})}}), HasSubstr("1 to 8 digits"));
  EXPECT_EQ(ErrorOf({{0, 0, std::vector<Digit>(8, Digit{1, 1})}}), "");
  EXPECT_THAT(ErrorOf({{0, 0, {{2, 2}}}}), HasSubstr("stride 1"));
  EXPECT_THAT(ErrorOf({{0, 0, {{0, 5}, {2, 1}}}}), HasSubstr("count 0"));
  EXPECT_THAT(ErrorOf({{0, 0, {{2, 3}, {4, 1}}}}), HasSubstr("not nested"));
  EXPECT_THAT(ErrorOf({{0, 0, {{2, 0}, {1, 1}}}}), HasSubstr("not nested"));
  EXPECT_EQ(ErrorOf({{0, 0, {{2, 4}, {4, 1}}}}), "");
}

TEST_F(HostilePartTest, BelongingAndOrder) {
  EXPECT_THAT(ErrorOf({{1, 0, {{1, 1}}}}), HasSubstr("part of tensor 'b' is owned although the tensor is frozen"));
  EXPECT_THAT(ErrorOf({{2, 0, {{1, 1}}}}), HasSubstr("segment of 2-byte units"));
  EXPECT_THAT(ErrorOf({{3, 0, {{1, 1}}}}), HasSubstr("presence group"));
  EXPECT_EQ(ErrorOf({{3, 0, {{1, 1}}}}, 2, 1), "");
  EXPECT_EQ(ErrorOf({{0, 0, {{3, 1}}}, {0, 1, {{3, 1}}}}), "") << "disjointness is for ProveCoverage";
  EXPECT_THAT(ErrorOf({{0, 5, {{1, 1}}}, {0, 5, {{1, 1}}}}), HasSubstr("must ascend"));
  EXPECT_THAT(ErrorOf({{4, 0, {{1, 1}}}, {0, 5, {{1, 1}}}}), HasSubstr("must ascend"));
  std::vector<Part> many;
  for (uint64_t i = 0; i < 20; ++i) many.push_back({4, i, {{(uint64_t{1} << 60) - 21, 1}}});
  EXPECT_THAT(ErrorOf(many), HasSubstr("more than 2^64 bytes")) << "overlapping parts must not wrap the count";
}

}  // namespace
}  // namespace xorbit
