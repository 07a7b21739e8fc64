// The parts section: exact bytes, its size where layers repeat, and every lie refused.
#include "payload/parts.h"

#include <algorithm>
#include <random>

#include "base/testing/seed.h"
#include "payload/payload_test_util.h"

namespace xorbit {
namespace {

using ::testing::HasSubstr;
using testing_payload::SmallLayout;

Buffer Varints(std::initializer_list<uint64_t> values) {
  Buffer bytes;
  for (const uint64_t value : values) AppendVarint(bytes, value);
  return bytes;
}

SegmentMap Map(const Layout& layout, uint32_t unit_bytes, uint32_t group, std::vector<Part> parts) {
  auto map = SegmentMap::Make(layout, unit_bytes, group, std::move(parts));
  EXPECT_TRUE(map.ok()) << map.status().message();
  return std::move(map).value();
}

std::string ErrorOf(std::initializer_list<uint64_t> values, uint32_t group = 0) {
  const auto map = DecodeParts(SmallLayout(), 2, group, Varints(values));
  return map.ok() ? "" : map.status().message();
}

// Numbers of docs/formats/payload.md, "Parts": 4 * count + kind.
constexpr uint64_t Skip(uint64_t count) { return 4 * count; }
constexpr uint64_t Whole(uint64_t count) { return 4 * count + 1; }
constexpr uint64_t PartsOf(uint64_t count) { return 4 * count + 2; }
constexpr uint64_t Repeat(uint64_t count) { return 4 * count + 3; }

TEST(Parts, BytesAreThoseOfThePage) {
  const Layout layout = SmallLayout();  // unit 2: a.bias, a.weight, d.draft
  EXPECT_EQ(EncodeParts(layout, Map(layout, 2, 0, {})), Varints({}));
  EXPECT_EQ(EncodeParts(layout, Map(layout, 2, 0, {WholeTensor(layout, 0), WholeTensor(layout, 1)})), Varints({Whole(2)}));
  EXPECT_EQ(EncodeParts(layout, Map(layout, 2, 1, {WholeTensor(layout, 4)})), Varints({Skip(2), Whole(1)}));
  EXPECT_EQ(EncodeParts(layout, Map(layout, 2, 0, {{1, 2, {{6, 8}, {2, 1}}}})), Varints({Skip(1), PartsOf(1), 2, 2, 6, 8, 2}));
  EXPECT_EQ(EncodeParts(layout, Map(layout, 2, 0, {{0, 1, {{2, 1}}}, {0, 5, {{1, 1}}}})),
            Varints({PartsOf(2), 1, 1, 2, 4, 1, 1}));
}

TEST(Parts, OwningEverythingIsAHandfulOfBytes) {
  std::vector<TensorSpec> tensors;
  for (int i = 0; i < 100'000; ++i) tensors.push_back(Tensor("t" + std::to_string(i), Dtype::kBF16, {uint64_t(1 + i % 7)}));
  const Layout layout = MakeLayout(std::move(tensors));
  const auto owners = PlanOwners(layout, 1, Split::kWhole);
  ASSERT_TRUE(owners.ok());
  EXPECT_LE(EncodeParts(layout, (*owners)[0][0]).size(), 3U);
}

TEST(Parts, ShardsOfRepeatedLayersAreAHandfulOfBytes) {
  std::vector<TensorSpec> tensors;
  for (int layer = 0; layer < 80; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer);
    for (const int dim : {64, 128, 256}) {
      tensors.push_back(Tensor(prefix + ".w" + std::to_string(dim), Dtype::kBF16, {64, uint64_t(dim)}));
      tensors.push_back(Tensor(prefix + ".b" + std::to_string(dim), Dtype::kBF16, {uint64_t(dim)}));
    }
  }
  const Layout layout = MakeLayout(std::move(tensors));
  for (const Split split : {Split::kRange, Split::kColumn}) {
    const auto owners = PlanOwners(layout, 8, split);
    ASSERT_TRUE(owners.ok());
    for (const auto& segments : *owners) {
      const Buffer bytes = EncodeParts(layout, segments[0]);
      EXPECT_LE(bytes.size(), 60U);
      const auto decoded = DecodeParts(layout, 2, 0, bytes);
      ASSERT_TRUE(decoded.ok()) << decoded.status().message();
      EXPECT_EQ(decoded->parts(), segments[0].parts());
    }
  }
}

TEST(Parts, RandomMapsRoundTrip) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<TensorSpec> tensors;
    for (uint64_t i = 0; i < 1 + random() % 40; ++i) {
      const Dtype dtype = random() % 3 == 0 ? Dtype::kF32 : Dtype::kBF16;
      tensors.push_back(Tensor("t" + std::to_string(i), dtype, {random() % 3, 6}, random() % 4 == 0 ? 1 : 0));
    }
    const Layout layout = MakeLayout(std::move(tensors), {"model", "draft"});
    std::vector<Part> parts;
    for (uint32_t i = 0; i < layout.tensors().size(); ++i) {
      const TensorSpec& tensor = layout.tensors()[i];
      if (tensor.byte_count == 0 || tensor.group != 0 || tensor.dtype != Dtype::kBF16) continue;
      const uint64_t rows = tensor.shape[0];
      switch (random() % 5) {
        case 0:
          parts.push_back(WholeTensor(layout, i));
          break;
        case 1:
          parts.push_back({i, 2, {{rows, 6}, {2, 1}}});
          break;
        case 2:
          parts.push_back({i, 0, {{rows, 6}, {2, 1}}});
          parts.push_back({i, 4, {{1, 1}}});
          break;
        case 3:
          parts.push_back({i, random() % 4, {{1 + random() % 2, 1}}});
          break;
        default:
          break;
      }
    }
    const SegmentMap map = Map(layout, 2, 0, parts);
    const auto decoded = DecodeParts(layout, 2, 0, EncodeParts(layout, map));
    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    EXPECT_EQ(decoded->parts(), parts);
  }
}

TEST(Parts, RefusesWhatDoesNotFollowTheFormat) {
  EXPECT_EQ(ErrorOf({}), "");
  EXPECT_EQ(ErrorOf({Whole(2)}), "");
  EXPECT_EQ(ErrorOf({Skip(3)}), "");
  EXPECT_EQ(ErrorOf({PartsOf(1), 0, 1, 3, Repeat(1), 1}), "");
  EXPECT_THAT(ErrorOf({Whole(0)}), HasSubstr("count 0"));
  EXPECT_THAT(ErrorOf({Whole(4)}), HasSubstr("past the layout's last tensor"));
  EXPECT_THAT(ErrorOf({Whole(UINT64_MAX / 4)}), HasSubstr("past the layout's last tensor"));
  EXPECT_THAT(ErrorOf({Skip(UINT64_MAX / 4)}), HasSubstr("past the layout's last tensor"));
  EXPECT_THAT(ErrorOf({Skip(3), PartsOf(1), 0, 1, 1}), HasSubstr("past the layout's last tensor"));
  EXPECT_THAT(ErrorOf({PartsOf(1), 0, 0}), HasSubstr("1 to 8 digits"));
  EXPECT_THAT(ErrorOf({PartsOf(1), 0, UINT64_MAX}), HasSubstr("1 to 8 digits"));
  EXPECT_THAT(ErrorOf({PartsOf(2), 0, 1, 1, 0, 1, 1}), HasSubstr("must ascend"));
  EXPECT_THAT(ErrorOf({PartsOf(2), 5, 1, 1, UINT64_MAX, 1, 1}), HasSubstr("must ascend"));
  EXPECT_THAT(ErrorOf({PartsOf(UINT64_MAX / 4), 0, 1, 1}), HasSubstr("a part's origin"));
  EXPECT_THAT(ErrorOf({PartsOf(1), 0, 1, 8}), HasSubstr("past the tensor's end"));
  EXPECT_THAT(ErrorOf({PartsOf(1), 0, 2, 2, 1, 2}), HasSubstr("not nested"));
  EXPECT_THAT(ErrorOf({Repeat(1), 1}), HasSubstr("what is not there"));
  EXPECT_THAT(ErrorOf({Whole(1), Repeat(1), 0}), HasSubstr("what is not there"));
  EXPECT_THAT(ErrorOf({Whole(1), Repeat(1), 2}), HasSubstr("what is not there"));
  EXPECT_THAT(ErrorOf({Whole(1), Repeat(3), 1}), HasSubstr("past the layout's last tensor"));
  EXPECT_THAT(ErrorOf({PartsOf(2), 0, 1, 1, 2, 1, 1, Repeat(1), 1}), HasSubstr("more than one part"));
  EXPECT_THAT(ErrorOf({Whole(3)}), HasSubstr("presence group"));
  EXPECT_THAT(ErrorOf({Whole(3)}, 1), HasSubstr("presence group"));
  EXPECT_THAT(ErrorOf({Repeat(1)}), HasSubstr("a period"));
}

}  // namespace
}  // namespace xorbit
