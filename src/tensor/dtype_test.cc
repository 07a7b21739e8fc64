// The dtype table is part of formats: codes, names and widths must stay what they are.
#include "tensor/dtype.h"

#include <gtest/gtest.h>

namespace xorbit {
namespace {

TEST(DtypeTest, NamesAndCodesReadBack) {
  int count = 0;
  for (int code = 0; code < 256; ++code) {
    const auto dtype = DtypeFromCode(static_cast<uint8_t>(code));
    if (!dtype) continue;
    ++count;
    EXPECT_EQ(static_cast<int>(*dtype), code);
    EXPECT_EQ(ParseDtype(NameOf(*dtype)), dtype);
  }
  EXPECT_EQ(count, 22);
  EXPECT_FALSE(DtypeFromCode(0));
  EXPECT_FALSE(DtypeFromCode(23));
  EXPECT_FALSE(ParseDtype(""));
  EXPECT_FALSE(ParseDtype("bf16"));
  EXPECT_FALSE(ParseDtype("BF16 "));
}

TEST(DtypeTest, CodesNeverChange) {
  EXPECT_EQ(NameOf(*DtypeFromCode(1)), "BOOL");
  EXPECT_EQ(NameOf(*DtypeFromCode(6)), "F8_E8M0");
  EXPECT_EQ(NameOf(*DtypeFromCode(10)), "BF16");
  EXPECT_EQ(NameOf(*DtypeFromCode(13)), "F32");
  EXPECT_EQ(NameOf(*DtypeFromCode(18)), "F4");
  EXPECT_EQ(NameOf(*DtypeFromCode(22)), "F8_E5M2FNUZ");
}

TEST(DtypeTest, Widths) {
  EXPECT_EQ(BitsOf(Dtype::kF4), 4);
  EXPECT_EQ(BitsOf(Dtype::kF6E3M2), 6);
  EXPECT_EQ(BitsOf(Dtype::kBool), 8);
  EXPECT_EQ(BitsOf(Dtype::kC64), 64);
  EXPECT_EQ(UnitBytesOf(Dtype::kF4), 1);
  EXPECT_EQ(UnitBytesOf(Dtype::kF6E2M3), 1);
  EXPECT_EQ(UnitBytesOf(Dtype::kF8E4M3), 1);
  EXPECT_EQ(UnitBytesOf(Dtype::kBF16), 2);
  EXPECT_EQ(UnitBytesOf(Dtype::kF32), 4);
  EXPECT_EQ(UnitBytesOf(Dtype::kC64), 8);
}

}  // namespace
}  // namespace xorbit
