// Rules name tensors by shell globs: whom a pattern meets, which of two rules wins, and that a typo does not pass in silence.
#include "tensor/layout_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor/tensor_test_util.h"

namespace xorbit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Layout Model() {
  return MakeLayout({Tensor("draft.0.weight", Dtype::kBF16, {4}), Tensor("layers.1.bias", Dtype::kF32, {4}),
                     Tensor("layers.1.weight", Dtype::kBF16, {4}), Tensor("layers.12.weight", Dtype::kBF16, {4})});
}

// The group and whether it is frozen, of every tensor in order.
std::vector<std::string> MarksOf(const Layout& layout) {
  std::vector<std::string> marks;
  for (const TensorSpec& tensor : layout.tensors()) {
    marks.push_back(layout.groups()[tensor.group] + (tensor.frozen ? " frozen" : ""));
  }
  return marks;
}

TEST(LayoutRules, NoneChangeNothing) {
  const Layout layout = ApplyRules(Model(), {}).value();
  EXPECT_EQ(layout.tensors(), Model().tensors());
  EXPECT_EQ(layout.groups(), Model().groups());
}

TEST(LayoutRules, PatternsAreShellGlobs) {
  EXPECT_THAT(MarksOf(ApplyRules(Model(), {{{"g", "layers.*"}}, {"*.bias"}}).value()),
              ElementsAre("model", "g frozen", "g", "g"));
  EXPECT_THAT(MarksOf(ApplyRules(Model(), {{{"g", "layers.?.weight"}}, {"layers.1[0-9].*"}}).value()),
              ElementsAre("model", "model", "g", "model frozen"));
  EXPECT_THAT(MarksOf(ApplyRules(Model(), {{{"g", "draft.0.weight"}}, {}}).value()),
              ElementsAre("g", "model", "model", "model"));
}

TEST(LayoutRules, LaterRulesWin) {
  const Layout layout =
      ApplyRules(Model(), {{{"a", "layers.*"}, {"b", "*.weight"}, {"model", "draft.*"}, {"a", "layers.12.*"}}, {}}).value();
  EXPECT_THAT(MarksOf(layout), ElementsAre("model", "a", "b", "a"));
  EXPECT_THAT(layout.groups(), ElementsAre("model", "a", "b"));
}

TEST(LayoutRules, TheLayoutKeepsItsDigest) {
  const Layout layout = ApplyRules(Model(), {{{"draft", "draft.*"}}, {"layers.1.bias"}}).value();
  EXPECT_EQ(layout.digest(), Model().digest());
}

TEST(LayoutRules, APatternThatMatchesNothingIsAMistake) {
  // A glob is for the whole name, and its case counts.
  for (const std::string pattern : {"layer.*", "layers", "Layers.*", ""}) {
    for (const LayoutRules& rules : {LayoutRules{{{"g", pattern}}, {}}, LayoutRules{{}, {"draft.*", pattern}}}) {
      const Status status = ApplyRules(Model(), rules).status();
      EXPECT_EQ(status.code(), Code::kUsage) << pattern;
      EXPECT_THAT(status.message(), HasSubstr("'" + pattern + "' matches no tensor"));
    }
  }
}

}  // namespace
}  // namespace xorbit
