// No flipped bit and no cut of a checked text is taken for what was written.
#include "store/checked_text.h"

#include <gtest/gtest.h>

#include "store/version_record.h"
#include "transport/testing/memory_store.h"

namespace xorbit {
namespace {

TEST(CheckedText, EndsWithTheChecksumOfAllBefore) {
  const std::string text = WithChecksum("{\"a\":1}\n");
  EXPECT_EQ(text.substr(0, 21), "{\"a\":1,\"checksum\":\"" + text.substr(19, 2));
  EXPECT_TRUE(text.ends_with("\"}\n"));
  EXPECT_TRUE(CheckChecksum(text).ok());
  EXPECT_FALSE(CheckChecksum("{\"a\":1}\n").ok());
  EXPECT_FALSE(CheckChecksum("").ok());
}

TEST(CheckedText, RefusesEveryFlippedBitAndEveryCut) {
  const std::string text = WithChecksum(WriteVersionRecord(AbortRecord(9)));
  EXPECT_EQ(ParseVersionRecord(text)->version, 9U);  // a field more does not disturb readers
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(CheckChecksum(std::string_view(text).substr(0, i)).ok());
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      EXPECT_EQ(CheckChecksum(flipped).code(), Code::kCorrupt);
    }
  }
}

TEST(CheckedText, NamesTheObject) {
  MemoryStore store;
  ASSERT_TRUE(PutText(store, "run/v000001/version.json", "{\"a\":1}\n").ok());
  EXPECT_EQ(GetText(store, "run/v000001/version.json", 100).value(), WithChecksum("{\"a\":1}\n"));
  store.Corrupt("run/v000001/version.json", [](Buffer* bytes) { (*bytes)[5] ^= 2; });
  EXPECT_EQ(GetText(store, "run/v000001/version.json", 100).status().message(),
            "run/v000001/version.json: its checksum is missing or wrong: it was damaged, or read wrongly");
  EXPECT_EQ(GetText(store, "run/v000002/version.json", 100).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace xorbit
