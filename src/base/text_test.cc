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

TEST(TextTest, PrintableIsWholeAndOnOneLine) {
  EXPECT_EQ(Printable("cannot open 'a\nb\x1b[2J': caf\xc3\xa9 \xff"), "cannot open 'a\\x0ab\\x1b[2J': caf\xc3\xa9 \\xff");
  EXPECT_EQ(Printable(std::string(1'000, 'x')), std::string(1'000, 'x'));
  EXPECT_EQ(Printable(""), "");
}

TEST(TextTest, QuotedShortensLongText) {
  const std::string quoted = Quoted(std::string(1'000'000, 'x'));
  EXPECT_LT(quoted.size(), 140);
  EXPECT_TRUE(quoted.ends_with("x...'"));
  std::string cut_inside_character(119, 'x');
  cut_inside_character += "\xf0\x9f\x98\x80\xf0\x9f\x98\x80";
  EXPECT_TRUE(IsValidUtf8(Quoted(cut_inside_character)));
}

TEST(TextTest, HexThereAndBack) {
  const Buffer bytes = {0x00, 0x1f, 0xa9, 0xff};
  EXPECT_EQ(ToHex(bytes), "001fa9ff");
  EXPECT_EQ(ToHex(0x1fa9ff, 8), "001fa9ff");
  EXPECT_EQ(ToHex(0x1fa9ff, 4), "a9ff");
  EXPECT_EQ(ToHex(UINT64_MAX - 1, 16), "fffffffffffffffe");
  Buffer parsed(4);
  EXPECT_TRUE(ParseHex("001fa9ff", parsed));
  EXPECT_EQ(parsed, bytes);
  for (const char* text : {"", "001fa9f", "001fa9ff0", "001FA9FF", "001fa9fg", " 01fa9ff", "0x1fa9ff"}) {
    EXPECT_FALSE(ParseHex(text, parsed)) << text;
  }
  EXPECT_FALSE(ParseHex(std::string_view("001fa9f\0", 8), parsed));
}

TEST(TextTest, ZeroPaddedNeverCutsDigits) {
  EXPECT_EQ(ZeroPadded(0, 1), "0");
  EXPECT_EQ(ZeroPadded(42, 6), "000042");
  EXPECT_EQ(ZeroPadded(1234567, 6), "1234567");
}

}  // namespace
}  // namespace xorbit
