// The layout's order, sizes and digest are what everything else refers to, and shapes may be anybody's.
#include "tensor/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tensor/tensor_test_util.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

TEST(LayoutTest, OrdersByTheBytesOfTheName) {
  const Layout layout = Layout::Make({Tensor("b", Dtype::kF32, {2}), Tensor("\xc3\xa9", Dtype::kU8, {}),
                                      Tensor("a.10", Dtype::kBF16, {3, 5}), Tensor("a.2", Dtype::kF4, {6})})
                            .value();
  ASSERT_EQ(layout.tensors().size(), 4);
  EXPECT_EQ(layout.tensors()[0].name, "a.10");
  EXPECT_EQ(layout.tensors()[1].name, "a.2");
  EXPECT_EQ(layout.tensors()[3].name, "\xc3\xa9");
  EXPECT_EQ(layout.tensors()[0].byte_count, 30);
  EXPECT_EQ(layout.tensors()[1].byte_count, 3);
  EXPECT_EQ(layout.tensors()[1].unit_count(), 3) << "sub-byte types count bytes";
  EXPECT_EQ(layout.tensors()[0].unit_count(), 15);
  EXPECT_EQ(layout.total_bytes(), 30 + 3 + 8 + 1);
  EXPECT_EQ(layout.Find("b"), 2);
  EXPECT_EQ(layout.Find("a"), std::nullopt);
  EXPECT_EQ(layout.Find("z"), std::nullopt);
}

// Computed with Python's hashlib and struct from the definition: SHA-256 of b"xorbit-layout-1\0" and, per tensor sorted by
// name, pack("<I", len(name)) + name + bytes([code]) + pack("<I", rank) + pack("<Q", dim)...
TEST(LayoutTest, ListsTheTensorsOfAUnit) {
  const auto spec = [](std::string name, Dtype dtype, std::vector<uint64_t> shape) {
    return TensorSpec{.name = std::move(name), .dtype = dtype, .shape = std::move(shape)};
  };
  const Layout layout = Layout::Make({spec("a", Dtype::kBF16, {1}), spec("b", Dtype::kF4, {2}), spec("c", Dtype::kBF16, {0}),
                                      spec("d", Dtype::kF64, {1}), spec("e", Dtype::kF16, {3})})
                            .value();
  EXPECT_EQ(layout.TensorsOfUnit(1), std::vector<uint32_t>({1}));
  EXPECT_EQ(layout.TensorsOfUnit(2), std::vector<uint32_t>({0, 4}));
  EXPECT_TRUE(layout.TensorsOfUnit(4).empty());
  EXPECT_EQ(layout.TensorsOfUnit(8), std::vector<uint32_t>({3}));
}

TEST(LayoutTest, DigestGoldens) {
  EXPECT_EQ(ToHex(Layout::Make({}).value().digest()), "19d13b02fc4ad91d2ef828cd842c8772ee0869411d29e042ee713f27b161cb61");
  std::vector<TensorSpec> tensors = {Tensor("model.embed_tokens.weight", Dtype::kBF16, {32, 8}),
                                     Tensor("lm_head.weight", Dtype::kF32, {uint64_t{1} << 33}),
                                     Tensor("\xc3\xa9", Dtype::kF4, {4}), Tensor("scale", Dtype::kF8E8M0, {})};
  const Layout layout = Layout::Make(tensors).value();
  EXPECT_EQ(ToHex(layout.digest()), "a0365388583eb992217e18367dfaa29368a0f5d2c22b934e4de76f0832db9dac");
  tensors[0].frozen = true;
  tensors[0].group = 1;
  EXPECT_EQ(Layout::Make(tensors, {"model", "draft"}).value().digest(), layout.digest()) << "policy is not layout";
}

TEST(LayoutTest, RefusesWhatCannotBe) {
  const auto error_of = [](std::vector<TensorSpec> tensors) {
    const auto layout = Layout::Make(std::move(tensors));
    return layout.ok() ? "" : layout.status().message();
  };
  EXPECT_THAT(error_of({Tensor("a", Dtype::kU8, {}), Tensor("b", Dtype::kU8, {}), Tensor("a", Dtype::kF32, {})}),
              HasSubstr("two tensors are named 'a'"));
  EXPECT_THAT(error_of({Tensor("a\xff", Dtype::kU8, {})}), HasSubstr("'a\\xff' is not valid UTF-8"));
  EXPECT_THAT(error_of({Tensor("a", Dtype::kU8, {uint64_t{1} << 32, uint64_t{1} << 32})}),
              HasSubstr("more than 2^64 elements"));
  EXPECT_THAT(error_of({Tensor("a", Dtype::kF64, {uint64_t{1} << 60})}), HasSubstr("more than 2^64 bits"));
  EXPECT_THAT(error_of({Tensor("a", Dtype::kF4, {3})}), HasSubstr("tensor 'a': shape [3] of F4 does not fill whole bytes"));
  EXPECT_THAT(error_of({Tensor("a", Dtype::kF6E2M3, {2})}), HasSubstr("whole bytes"));
  EXPECT_EQ(error_of({Tensor("a", Dtype::kF6E2M3, {4})}), "");
  EXPECT_THAT(error_of({Tensor("a", Dtype::kU8, std::vector<uint64_t>(65, 1))}), HasSubstr("more than 64 dimensions"));
  EXPECT_EQ(error_of({Tensor("a", Dtype::kU8, std::vector<uint64_t>(64, 1))}), "");
  EXPECT_EQ(error_of({Tensor("a", Dtype::kU8, {uint64_t{1} << 60}), Tensor("b", Dtype::kF32, {0, 7})}), "");
  std::vector<TensorSpec> many(9, Tensor("", Dtype::kU8, {(uint64_t{1} << 61) - 1}));
  for (size_t i = 0; i < many.size(); ++i) many[i].name = std::to_string(i);
  EXPECT_THAT(error_of(many), HasSubstr("add up to more than 2^64 bytes"));
  TensorSpec grouped = Tensor("a", Dtype::kU8, {});
  grouped.group = 1;
  EXPECT_THAT(error_of({grouped}), HasSubstr("presence group"));
}

TEST(LayoutTest, DescribesTheFirstDifference) {
  const auto make = [](std::vector<TensorSpec> tensors) { return Layout::Make(std::move(tensors)).value(); };
  const Layout a = make({Tensor("x", Dtype::kBF16, {2, 3}), Tensor("y", Dtype::kF32, {})});
  EXPECT_EQ(DescribeDifference(a, "old", a, "new"), "");
  EXPECT_EQ(DescribeDifference(a, "old", make({Tensor("x", Dtype::kBF16, {2, 3})}), "new"),
            "tensor 'y' is in old but not in new");
  EXPECT_EQ(DescribeDifference(make({}), "old", a, "new"), "tensor 'x' is in new but not in old");
  EXPECT_EQ(DescribeDifference(a, "old", make({Tensor("x", Dtype::kF16, {2, 3}), Tensor("y", Dtype::kF32, {})}), "new"),
            "tensor 'x' is BF16 [2, 3] in old but F16 [2, 3] in new");
}

}  // namespace
}  // namespace xorbit
