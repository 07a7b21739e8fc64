// Untrusted text in messages must stay one printable line.
#include "base/text.h"

#include <gtest/gtest.h>

namespace xorbit {
namespace {

TEST(TextTest, ValidUtf8) {
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_TRUE(IsValidUtf8("model.layers.0"));
  EXPECT_TRUE(IsValidUtf8("\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"));
}

TEST(TextTest, InvalidUtf8) {
  for (const char* text : {"\x80", "\xc1\xbf", "\xc2", "\xc2\x41", "\xe0\x9f\xbf", "\xe2\x82", "\xed\xa0\x80",
                           "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "good then \xe2\x28\xa1"}) {
    EXPECT_FALSE(IsValidUtf8(text)) << testing::PrintToString(std::string(text));
  }
}

TEST(TextTest, QuotedIsOnePrintableLine) {
  EXPECT_EQ(Quoted("lm_head.weight"), "'lm_head.weight'");
  EXPECT_EQ(Quoted("caf\xc3\xa9"), "'caf\xc3\xa9'");
  EXPECT_EQ(Quoted("a\nb\x1b[2J\x7f"), "'a\\x0ab\\x1b[2J\\x7f'");
  EXPECT_EQ(Quoted("\xc2\x9b"
                   "31m \xff"),
            "'\\xc2\\x9b31m \\xff'");
  EXPECT_EQ(Quoted(std::string_view("\0", 1)), "'\\x00'");
}

TEST(TextTest, QuotedShortensLongText) {
  const std::string quoted = Quoted(std::string(1'000'000, 'x'));
  EXPECT_LT(quoted.size(), 140);
  EXPECT_TRUE(quoted.ends_with("x...'"));
  std::string cut_inside_character(119, 'x');
  cut_inside_character += "\xf0\x9f\x98\x80\xf0\x9f\x98\x80";
  EXPECT_TRUE(IsValidUtf8(Quoted(cut_inside_character)));
}

}  // namespace
}  // namespace xorbit
