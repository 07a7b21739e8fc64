// Layout files: round trips, the exact text, and every lie refused.
#include "base/checksum_field.h"
#include "payload/manifest.h"
#include "payload/payload_test_util.h"

namespace xorbit {
namespace {

using namespace testing_payload;  // NOLINT(google-build-using-namespace): helpers made for these tests
using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text, const Sha256Digest& digest = SmallLayout().digest()) {
  const auto layout = ParseLayoutJson(WithChecksum(std::string(text) + "\n"), digest);
  return layout.ok() ? "" : layout.status().message();
}

TEST(LayoutJson, TextIsThatOfThePage) {
  EXPECT_EQ(WriteLayoutJson(SmallLayout()),
            R"({"format":"xorbit-layout","format_version":1,"groups":["model","draft"],"tensors":[["a.bias","BF16",[7]],)"
            R"(["a.weight","BF16",[6,8]],["b.empty","F32",[0,4]],["c.fp4","F4",[4,16]],["d.draft","BF16",[4,4],{"group":1}],)"
            R"(["e.frozen","I64",[9],{"frozen":true}]],"checksum":"f13d8b989beeb65c"})"
            "\n");
}

TEST(LayoutJson, RoundTrips) {
  const Layout layout = MakeLayout({Tensor("", Dtype::kBool, {}), Tensor("\"quoted\"\n\xc3\xa9", Dtype::kF8E4M3FNUZ, {1, 2, 3}),
                                    Tensor(std::string("nul\0", 4), Dtype::kC64, {uint64_t{1} << 50})});
  const auto parsed = ParseLayoutJson(WriteLayoutJson(layout), layout.digest());
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->tensors(), layout.tensors());
  EXPECT_EQ(parsed->groups(), layout.groups());
  const auto small = ParseLayoutJson(WriteLayoutJson(SmallLayout()), SmallLayout().digest());
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small->tensors(), SmallLayout().tensors());
  EXPECT_EQ(small->groups(), SmallLayout().groups());
}

TEST(LayoutJson, Refuses) {
  const auto with = [](std::string_view groups, std::string_view tensors) {
    return ErrorOf(R"({"format":"xorbit-layout","format_version":1,"groups":)" + std::string(groups) + R"(,"tensors":)" +
                   std::string(tensors) + "}");
  };
  const std::string other = "holds another layout than its name says";
  EXPECT_EQ(with(R"(["m"])", "[]"), other);
  EXPECT_EQ(with(R"(["m"])", R"([["a","U8",[]]])"), other);
  EXPECT_THAT(with(R"(["m"])", R"([["b","U8",[]],["a","U8",[]]])"), HasSubstr("do not ascend"));
  EXPECT_THAT(with(R"(["m"])", R"([["a","U8",[]],["a","U8",[]]])"), HasSubstr("do not ascend"));
  EXPECT_THAT(with(R"(["m"])", R"([["a","U8"]])"), HasSubstr("tensor 0: the entry must be"));
  EXPECT_THAT(with(R"(["m"])", R"([["a","U8",[],{},1]])"), HasSubstr("the entry must be"));
  EXPECT_THAT(with(R"(["m"])", R"([{"a":1}])"), HasSubstr("must be an array"));
  EXPECT_THAT(with(R"(["m"])", R"([["a","INT3",[]]])"), HasSubstr("dtype"));
  EXPECT_THAT(with(R"(["m"])", R"([["a","U8",[-1]]])"), HasSubstr("a dimension"));
  EXPECT_THAT(with(R"(["m"])", R"([["a","U8",[1.0]]])"), HasSubstr("a dimension"));
  EXPECT_THAT(with(R"(["m"])", R"([["a","U8",[4294967296,4294967296]]])"), HasSubstr("2^64"));
  EXPECT_THAT(with(R"(["m"])", R"([["a","F4",[3]]])"), HasSubstr("whole bytes"));
  EXPECT_THAT(with(R"(["m"])", R"([["a","U8",[1],{"group":1}]])"), HasSubstr("not declared"));
  EXPECT_THAT(with(R"(["m"])", R"([["a","U8",[1],{"group":256}]])"), HasSubstr("at most 255"));
  EXPECT_THAT(with(R"(["m"])", R"([["a","U8",[1],{"frozen":1}]])"), HasSubstr("true or false"));
  EXPECT_THAT(with(R"(["m"])", R"([["a","U8",[1],{"sealed":1,"critical":["sealed"]}]])"), HasSubstr("newer xorbit"));
  EXPECT_THAT(with(R"([])", "[]"), HasSubstr("'groups' must have"));
  EXPECT_THAT(with(R"(["m","m"])", "[]"), HasSubstr("repeats a name"));
  EXPECT_THAT(ErrorOf(R"({"format":"xorbit-layout","format_version":2})"), HasSubstr("format version 2"));
  EXPECT_THAT(ErrorOf(R"({"format":"xorbit-delta","format_version":1})"), HasSubstr("field 'format'"));
  EXPECT_THAT(ErrorOf(R"({"format":"xorbit-layout","format_version":1,"x":[)" + std::string(100, '[') + "}"),
              HasSubstr("nested deeper"));
}

// The digest covers names, dtypes and shapes, but neither presence groups nor frozen marks.
TEST(LayoutJson, EveryTruncationAndFlippedBitIsRefused) {
  const std::string good = WriteLayoutJson(SmallLayout());
  const Sha256Digest digest = SmallLayout().digest();
  for (size_t byte_count = 0; byte_count < good.size(); ++byte_count)
    EXPECT_EQ(ParseLayoutJson(good.substr(0, byte_count), digest).status().code(), Code::kCorrupt) << byte_count;
  std::string text = good;
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(ParseLayoutJson(text, digest).status().code(), Code::kCorrupt) << "bit " << bit;
    text[bit / 8] = good[bit / 8];
  }
}

}  // namespace
}  // namespace xorbit
