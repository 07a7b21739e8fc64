// The file of a live map: comes back as it was written, byte for byte, and is refused in every broken form.
#include "tensor/live_map_json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/bytes.h"
#include "base/testing/seed.h"
#include "tensor/random_live_map.h"
#include "tensor/tensor_test_util.h"

namespace xorbit {
namespace {

// One of everything.
class LiveMapJson : public testing::Test {
 protected:
  LiveMapJson()
      : layout_(MakeLayout({Tensor("a", Dtype::kBF16, {4, 8}), Tensor("b", Dtype::kBF16, {4, 8}),
                            Tensor("c", Dtype::kBF16, {6}), Tensor("d", Dtype::kU8, {2}), Tensor("e", Dtype::kU8, {2}, 1)},
                           {"model", "draft"})) {
    LiveMapSpec spec;
    spec.epoch = 3;
    spec.absent_groups = {1};
    spec.regions = {{"a half", 32}, {"c", 24}};
    spec.classes = {MakePieceClass(16, std::vector<LiveDigit>{{4, 8, 4}, {4, 1, 1}}).value(),
                    MakePieceClass(16, std::vector<LiveDigit>{{6, 1, 1}}).value()};
    spec.pieces = {{.tensor_index = 0, .class_index = 0, .region_index = 0, .counted = false, .origin = 4}};
    spec.shadows = {{Cast::kBf16ToF32, {.tensor_index = 2, .class_index = 1, .region_index = 1}}};
    spec.aliases = {{1, 0}};
    spec.derived = {{3, "rescale", false}};
    text_ = WriteLiveMapJson(layout_, LiveMap::Make(layout_, spec).value());
  }

  // What comes of the text with `from` in it replaced.
  std::string Changed(const std::string& from, const std::string& to) {
    std::string text = text_;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    return ParseLiveMapJson(text, layout_).status().message();
  }

  Layout layout_;
  std::string text_;
};

TEST_F(LiveMapJson, IsWrittenAsThePageSays) {
  EXPECT_EQ(text_, "{\"format\":\"xorbit-live-map\",\"format_version\":1,\"layout_digest\":\"" + ToHex(layout_.digest()) +
                       "\",\"epoch\":3,\"absent_groups\":[\"draft\"],\"regions\":[[\"a half\",32],[\"c\",24]],"
                       "\"classes\":[[16,[4,8,4],[4,1,1]],[16,[6,1,1]]],\"pieces\":[[0,0,0,4,0,false]],"
                       "\"shadows\":[[\"bf16-to-f32\",2,1,1,0,0]],\"aliases\":[[1,0]],\"derived\":[[3,\"rescale\",false]]}\n");
  const LiveMap map = ParseLiveMapJson(text_, layout_).value();
  EXPECT_EQ(WriteLiveMapJson(layout_, map), text_);
  EXPECT_EQ(map.epoch(), 3U);
  EXPECT_TRUE(map.is_absent(1));
  EXPECT_FALSE(map.pieces()[0].counted);
  EXPECT_EQ(map.shadows()[0].cast, Cast::kBf16ToF32);
  EXPECT_EQ(map.alias_of(1), 0U);
  EXPECT_FALSE(map.derived()[0].counted);
}

TEST_F(LiveMapJson, RefusesWhatIsBroken) {
  EXPECT_EQ(Changed("\"epoch\":3", "\"epoch\":-3"), "field 'epoch' must be a non-negative 64-bit integer");
  EXPECT_EQ(Changed("xorbit-live-map", "xorbit-layout"), "field 'format' must be \"xorbit-live-map\"");
  EXPECT_EQ(Changed("\"format_version\":1", "\"format_version\":2"),
            "has format version 2, which this xorbit does not read; a newer one may");
  EXPECT_EQ(Changed("\"draft\"", "\"vision\""), "field 'absent_groups' names a group that the layout does not have");
  EXPECT_EQ(Changed("bf16-to-f32", "bf16-to-f64"), "'shadows' entry 0: the cast is not one that this xorbit knows");
  EXPECT_EQ(Changed("[0,0,0,4,0,false]", "[0,0,0,4]"),
            "'pieces' entry 0: the entry must have 5 fields, and may say whether it is counted");
  EXPECT_NE(Changed("[0,0,0,4,0,false]", "[0,0,0,4,0,0]"), "");
  EXPECT_NE(Changed("[0,0,0,4,0,false]", "[4294967296,0,0,4,0]"), "");
  EXPECT_EQ(Changed("[0,0,0,4,0,false]", "[0,0,0,5,0]"), "tensor 'a' has a piece that reaches past its end");
  EXPECT_EQ(Changed("[4,8,4]", "[4,8]"), "'classes' entry 0: a digit must be [count, canonical stride, live stride]");
  EXPECT_EQ(Changed("[[1,0]]", "[[1,0,2]]"), "'aliases' entry 0: the entry must be [tensor, tensor that it is tied to]");
  EXPECT_EQ(Changed("\"epoch\":3", "\"epoch\":3,\"mirror\":1,\"critical\":[\"mirror\"]").empty(), false);
  EXPECT_EQ(Changed("\"epoch\":3", "\"epoch\":3,\"mirror\":1"), "");
  const Layout other = MakeLayout({Tensor("a", Dtype::kBF16, {4, 9})});
  EXPECT_EQ(ParseLiveMapJson(text_, other).status().code(), Code::kRefused);
  for (size_t length = 0; length + 1 < text_.size(); ++length) {
    ASSERT_FALSE(ParseLiveMapJson(std::string_view(text_).substr(0, length), layout_).ok()) << length;
  }
}

TEST(LiveMapJsonProperty, ComesBackAsItWas) {
  Random random(TestSeed());
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE("seed " + std::to_string(TestSeed()) + ", round " + std::to_string(round));
    const Layout layout = RandomLayout(random, 6, 700);
    const LiveMap map = RandomLiveMap(random, layout).Make();
    const std::string text = WriteLiveMapJson(layout, map);
    const LiveMap again = ParseLiveMapJson(text, layout).value();
    ASSERT_EQ(WriteLiveMapJson(layout, again), text);
    ASSERT_TRUE(std::equal(map.pieces().begin(), map.pieces().end(), again.pieces().begin(), again.pieces().end()));
    ASSERT_TRUE(std::equal(map.classes().begin(), map.classes().end(), again.classes().begin(), again.classes().end()));
  }
}

}  // namespace
}  // namespace xorbit
