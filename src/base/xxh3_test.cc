// Published values of XXH3-128, and the same hash whatever the pieces.
#include "base/xxh3.h"

#include <gtest/gtest.h>

namespace xorbit {
namespace {

// Known answer: XXH3_128bits of nothing with seed 0, from xxHash's own sanity table.
TEST(Xxh3, KnownAnswerOfNothing) {
  const Xxh3Digest empty{0x6001c324468d497f, 0x99aa06d3014798d8};
  EXPECT_EQ(Xxh3Of({}), empty);
  EXPECT_EQ(Xxh3().Finish(), empty);
}

TEST(Xxh3, PiecesHashLikeTheWhole) {
  Buffer bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7);
  for (size_t cut = 0; cut <= bytes.size(); cut += 37) {
    Xxh3 hash;
    hash.Update(ConstBytes(bytes).first(cut));
    hash.Update(ConstBytes(bytes).subspan(cut));
    EXPECT_EQ(hash.Finish(), Xxh3Of(bytes)) << cut;
  }
}

}  // namespace
}  // namespace xorbit
