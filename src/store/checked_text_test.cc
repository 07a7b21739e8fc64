// What is put with a checksum is got with it, and a damaged object is named.
#include "store/checked_text.h"

#include <gtest/gtest.h>

#include "base/checksum_field.h"
#include "transport/testing/memory_store.h"

namespace xorbit {
namespace {

TEST(CheckedText, NamesTheObject) {
  MemoryStore store;
  ASSERT_TRUE(PutText(store, "run/v000001/version.json", "{\"a\":1}\n").ok());
  EXPECT_EQ(GetText(store, "run/v000001/version.json", 100).value(), WithChecksum("{\"a\":1}\n"));
  store.Corrupt("run/v000001/version.json", [](Buffer* bytes) { (*bytes)[5] ^= 2; });
  EXPECT_EQ(
      GetText(store, "run/v000001/version.json", 100).status().message(),
      "run/v000001/version.json: its checksum is missing or wrong: it was damaged or read wrongly; try again, or restore it");
  EXPECT_EQ(GetText(store, "run/v000002/version.json", 100).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace xorbit
