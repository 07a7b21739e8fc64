// Many readers, one fetch: also when a fetching process is killed, and when the folder is too small.
#include "transport/host_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "base/parallel.h"
#include "base/temporary_folder.h"
#include "transport/testing/forwarding_store.h"
#include "transport/testing/memory_store.h"

namespace xorbit {
namespace {

// Counts what is read of a store, and may stall a read.
class CountingStore final : public ForwardingStore {
 public:
  explicit CountingStore(ObjectStore& store) : ForwardingStore(store) {}
  std::atomic<uint64_t> reads{0};
  std::function<void()> on_read;
  Status ReadInto(std::string_view key, uint64_t offset_bytes, MutableBytes bytes) override {
    ++reads;
    if (on_read) on_read();
    return ForwardingStore::ReadInto(key, offset_bytes, bytes);
  }
};

class HostCacheTest : public testing::Test {
 protected:
  std::unique_ptr<ObjectStore> Open(uint64_t limit_bytes = UINT64_MAX) {
    HostCacheOptions options;
    options.keeps = [](std::string_view key) { return key.ends_with(".xob"); };
    options.limit_bytes = limit_bytes;
    options.patience = std::chrono::milliseconds(200);
    return OpenHostCache(store_, PosixFileOps(), folder_.path(), options, &counts_);
  }
  Status Put(std::string_view key, uint64_t byte_count, uint8_t value) { return store_.PutNew(key, Buffer(byte_count, value)); }
  Buffer Read(ObjectStore& cache, std::string_view key, uint64_t byte_count) {
    Buffer bytes(byte_count);
    const Status status = cache.ReadInto(key, 0, bytes);
    EXPECT_TRUE(status.ok()) << status.message();
    return bytes;
  }

  fs::path Copy(const std::string& key) const { return folder_ / ("xorbit%" + key); }

  TemporaryFolder folder_;
  MemoryStore far_;
  CountingStore store_{far_};
  HostCacheCounts counts_;
};

TEST_F(HostCacheTest, ReadersTogetherFetchOnce) {
  ASSERT_TRUE(Put("run/a.xob", 100'000, 7).ok());
  store_.on_read = [] { ::usleep(20'000); };  // long enough for all to ask
  const Status status = ParallelFor(8, 8, [&](uint64_t /*reader*/) -> Status {
    const auto cache = Open();
    EXPECT_EQ(Read(*cache, "run/a.xob", 100'000), Buffer(100'000, 7));
    return {};
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(store_.reads, 1U);
  EXPECT_EQ(counts_.objects, 1U);
  EXPECT_EQ(counts_.bytes, 100'000U);
  const auto cache = Open();
  EXPECT_EQ(cache->Get("run/a.xob", 100'000).value(), Buffer(100'000, 7));
  EXPECT_EQ(cache->Get("run/a.xob", 99'999).status().code(), Code::kCorrupt);
  EXPECT_EQ(store_.reads, 1U);
}

TEST_F(HostCacheTest, ADamagedCopyIsDroppedAndReadAnew) {
  ASSERT_TRUE(Put("run/a.xob", 1'000, 7).ok());
  const auto cache = Open();
  EXPECT_FALSE(cache->DropCopy("run/a.xob"));
  EXPECT_EQ(Read(*cache, "run/a.xob", 1'000), Buffer(1'000, 7));
  for (const auto& file : fs::directory_iterator(folder_.path())) fs::resize_file(file.path(), 999);
  Buffer bytes(1'000);
  EXPECT_EQ(cache->ReadInto("run/a.xob", 0, bytes).code(), Code::kCorrupt);
  EXPECT_TRUE(cache->DropCopy("run/a.xob"));
  EXPECT_EQ(Read(*cache, "run/a.xob", 1'000), Buffer(1'000, 7));
  EXPECT_FALSE(cache->DropCopy("run/other.xob"));
  EXPECT_FALSE(cache->DropCopy("run/a.json"));
  EXPECT_EQ(store_.reads, 2U);
}

TEST_F(HostCacheTest, OtherObjectsAreReadEachTime) {
  ASSERT_TRUE(Put("run/head.json", 10, 1).ok());
  const auto cache = Open();
  for (int i = 0; i < 3; ++i) static_cast<void>(Read(*cache, "run/head.json", 10));
  EXPECT_EQ(store_.reads, 3U);
  EXPECT_EQ(counts_.objects, 0U);
}

TEST_F(HostCacheTest, WhatIsNotThereIsNotFound) {
  Buffer bytes(10);
  EXPECT_EQ(Open()->ReadInto("run/a.xob", 0, bytes).code(), Code::kNotFound);
  EXPECT_EQ(Open()->Get("run/a.xob", 10).status().code(), Code::kNotFound);
}

TEST_F(HostCacheTest, TheOldestGiveWay) {
  std::ofstream(folder_ / "important.xob") << std::string(9'000, 'x');  // somebody else's
  const auto cache = Open(2'500);
  for (const std::string key : {"a.xob", "b.xob", "c.xob"}) {
    ASSERT_TRUE(Put(key, 1'000, 1).ok());
    static_cast<void>(Read(*cache, key, 1'000));
    ::usleep(2'000);
  }
  EXPECT_FALSE(fs::exists(Copy("a.xob")));
  EXPECT_TRUE(fs::exists(folder_ / "important.xob"));
  EXPECT_TRUE(fs::exists(Copy("b.xob")));
  EXPECT_TRUE(fs::exists(Copy("c.xob")));
  static_cast<void>(Read(*cache, "a.xob", 1'000));
  EXPECT_EQ(counts_.objects, 4U);
}

TEST_F(HostCacheTest, AStoreLargerThanItsCacheIsReadAllTheSame) {
  ASSERT_TRUE(Put("a.xob", 1'000, 3).ok());
  const auto cache = Open(10);
  EXPECT_EQ(Read(*cache, "a.xob", 1'000), Buffer(1'000, 3));
  EXPECT_FALSE(fs::exists(Copy("a.xob")));
}

TEST_F(HostCacheTest, AFolderThatCannotBeWrittenIsLeftAlone) {
  for (const std::string key : {"a.xob", "b.xob"}) ASSERT_TRUE(Put(key, 1'000, 5).ok());
  fs::create_directory(Copy("a.xob").string() + ".part");  // in the way
  const auto cache = Open();
  EXPECT_EQ(Read(*cache, "a.xob", 1'000), Buffer(1'000, 5));
  EXPECT_EQ(store_.reads, 1U);
  EXPECT_EQ(Read(*cache, "b.xob", 1'000), Buffer(1'000, 5));
  EXPECT_FALSE(fs::exists(Copy("b.xob")));
  EXPECT_EQ(counts_.objects, 0U);
}

TEST_F(HostCacheTest, AProcessStoppedWhileItFetchesHoldsUpNobodyForLong) {
  ASSERT_TRUE(Put("a.xob", 1'000, 5).ok());
  const auto lock = FileLock::TryAcquire(Copy("a.xob").string() + ".lock");  // all that there is of it
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(Read(*Open(), "a.xob", 1'000), Buffer(1'000, 5));
  EXPECT_EQ(counts_.objects, 0U);
}

TEST_F(HostCacheTest, LargeObjectsComeInPieces) {
  constexpr uint64_t kBytes = (uint64_t{9} << 20) + 5;
  Buffer bytes(kBytes);
  for (uint64_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<uint8_t>(i >> 12);
  ASSERT_TRUE(store_.PutNew("a.xob", bytes).ok());
  EXPECT_EQ(Read(*Open(), "a.xob", kBytes), bytes);
  EXPECT_EQ(store_.reads, 3U);
  EXPECT_EQ(counts_.bytes, kBytes);
}

TEST_F(HostCacheTest, AProcessKilledWhileItFetchesHoldsUpNobody) {
  ASSERT_TRUE(Put("a.xob", 1'000, 5).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    store_.on_read = [] { ::kill(::getpid(), SIGKILL); };  // the part has been begun
    Buffer bytes(1'000);
    ::_exit(Open()->ReadInto("a.xob", 0, bytes).ok() ? 1 : 2);
  }
  int state = 0;
  ASSERT_EQ(::waitpid(child, &state, 0), child);
  ASSERT_TRUE(WIFSIGNALED(state));
  EXPECT_TRUE(fs::exists(Copy("a.xob.part")));
  ASSERT_TRUE(Put("b.xob", 1'000, 6).ok());
  EXPECT_EQ(Read(*Open(), "b.xob", 1'000), Buffer(1'000, 6));
  EXPECT_FALSE(fs::exists(Copy("a.xob.part")));  // whoever makes room clears up
  EXPECT_FALSE(fs::exists(Copy("a.xob.lock")));
  EXPECT_EQ(Read(*Open(), "a.xob", 1'000), Buffer(1'000, 5));
  EXPECT_EQ(counts_.objects, 2U);
}

}  // namespace
}  // namespace xorbit
