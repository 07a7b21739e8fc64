// What a folder promises as a store: objects that are created once, whole and for good, whatever reply, process or power is
// lost.
#include "transport/folder_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <random>

#include "base/temporary_folder.h"
#include "base/testing/forwarding_file_ops.h"
#include "base/testing/recording_file_ops.h"
#include "base/testing/seed.h"

namespace xorbit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<ObjectStore> OpenStore(FileOps& ops, const fs::path& root) {
  auto store = OpenFolderStore(ops, root);
  EXPECT_TRUE(store.ok()) << store.status().message();
  return std::move(store).value();
}

std::string TextOf(ObjectStore& store, std::string_view key) {
  const Result<Buffer> bytes = store.Get(key, 1 << 20);
  return bytes.ok() ? std::string(AsText(*bytes)) : bytes.status().message();
}

class FolderStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<ObjectStore> Open(FileOps& ops = PosixFileOps()) { return OpenStore(ops, folder_ / "store"); }
  std::string Leftovers() const {
    std::string names;
    for (const auto& entry : fs::directory_iterator(folder_ / "store" / ".tmp")) names += entry.path().filename().string();
    return names;
  }

  TemporaryFolder folder_;
};

TEST(ObjectKey, IsAPathThatStaysInside) {
  for (const char* key : {"a", "a/b.c/D_9-", "v000001/from_v000000/x/manifest.json", "a..b"}) {
    EXPECT_TRUE(CheckObjectKey(key).ok()) << key;
  }
  for (const char* key : {"", "/", "/a", "a/", "a//b", "..", "a/../b", ".", "a/.b", "a b", "a\\b", "\xc3\xa4", "a\n", "~"}) {
    EXPECT_EQ(CheckObjectKey(key).code(), Code::kUsage) << key;
  }
  EXPECT_EQ(CheckObjectKey(std::string_view("a\0b", 3)).code(), Code::kUsage);
  EXPECT_EQ(CheckObjectKey(std::string(256, 'a')).code(), Code::kUsage);
  EXPECT_TRUE(CheckObjectKey(std::string(255, 'a')).ok());
  std::string long_key = "a";
  while (long_key.size() <= 1024) long_key += "/a";
  EXPECT_EQ(CheckObjectKey(long_key).code(), Code::kUsage);
}

TEST_F(FolderStoreTest, CreatesOnceAndReadsBack) {
  auto store = Open();
  ASSERT_TRUE(store->PutNew("s/v1/a.json", AsBytes("hello")).ok());
  EXPECT_TRUE(store->PutNew("s/v1/a.json", AsBytes("hello")).ok());  // a lost reply, tried again
  for (const char* other : {"Hello", "hell", "hello!", ""}) {
    const Status status = store->PutNew("s/v1/a.json", AsBytes(other));
    EXPECT_EQ(status.code(), Code::kExists) << other;
    EXPECT_THAT(status.message(), HasSubstr("a.json' exists already"));
  }
  EXPECT_EQ(TextOf(*store, "s/v1/a.json"), "hello");
  const ConstBytes pieces[] = {AsBytes("he"), AsBytes(""), AsBytes("llo")};
  EXPECT_TRUE(store->PutNew("s/v1/a.json", pieces).ok());
  EXPECT_EQ(store->Get("s/v1/a.json", 4).status().code(), Code::kCorrupt);
  EXPECT_EQ(store->Get("s/v1/b.json", 4).status().code(), Code::kNotFound);
  EXPECT_EQ(store->Get("s/v1/a.json/b", 4).status().code(), Code::kNotFound);
  EXPECT_FALSE(store->Get("s/v1", 4).ok());  // a folder is no object
  Buffer middle(3);
  ASSERT_TRUE(store->ReadInto("s/v1/a.json", 1, middle).ok());
  EXPECT_EQ(AsText(middle), "ell");
  EXPECT_EQ(store->ReadInto("s/v1/a.json", 3, middle).code(), Code::kCorrupt);
  EXPECT_EQ(Leftovers(), "");
}

TEST_F(FolderStoreTest, ReplacesAndRemoves) {
  auto store = Open();
  ASSERT_TRUE(store->Replace("s/head.json", AsBytes("1")).ok());
  ASSERT_TRUE(store->Replace("s/head.json", AsBytes("2")).ok());
  EXPECT_EQ(TextOf(*store, "s/head.json"), "2");
  EXPECT_TRUE(store->Remove("s/head.json").ok());
  EXPECT_TRUE(store->Remove("s/head.json").ok());
  EXPECT_TRUE(store->Remove("nothing/here").ok());
  EXPECT_EQ(store->Stat("s/head.json").status().code(), Code::kNotFound);
  EXPECT_EQ(store->Remove("../x").code(), Code::kUsage);
  EXPECT_EQ(Leftovers(), "");
}

TEST_F(FolderStoreTest, ListsByPrefixInOrder) {
  auto store = Open();
  for (const char* key : {"s/v2/b", "s/v1/a", "s/v10/c", "t/x", "s.json"}) ASSERT_TRUE(store->PutNew(key, AsBytes(key)).ok());
  const auto keys_of = [&](std::string_view prefix) {
    std::vector<std::string> keys;
    const auto objects = store->List(prefix);
    EXPECT_TRUE(objects.ok());
    for (const ObjectInfo& object : *objects) {
      EXPECT_EQ(object.byte_count, object.key.size());
      keys.push_back(object.key);
    }
    return keys;
  };
  EXPECT_THAT(keys_of(""), ElementsAre("s.json", "s/v1/a", "s/v10/c", "s/v2/b", "t/x"));
  EXPECT_THAT(keys_of("s/v1"), ElementsAre("s/v1/a", "s/v10/c"));
  EXPECT_THAT(keys_of("s/v1/"), ElementsAre("s/v1/a"));
  EXPECT_THAT(keys_of("s/v1/a"), ElementsAre("s/v1/a"));
  EXPECT_THAT(keys_of("u/"), ElementsAre());
}

TEST_F(FolderStoreTest, TouchesNothingBeforeTheFirstWrite) {
  auto store = Open();
  EXPECT_EQ(store->Get("s/a", 4).status().code(), Code::kNotFound);
  EXPECT_EQ(store->Stat("s/a").status().code(), Code::kNotFound);
  EXPECT_EQ(store->List("")->size(), 0U);
  EXPECT_FALSE(fs::exists(folder_ / "store"));
  EXPECT_TRUE(store->PutNew("s/a", AsBytes("a")).ok());
  EXPECT_EQ(TextOf(*store, "s/a"), "a");
}

void MakeFile(const fs::path& path, std::chrono::file_clock::duration age = {}) {
  ASSERT_TRUE(WriteWholeFile(PosixFileOps(), path, AsBytes("x")).ok());
  fs::last_write_time(path, std::chrono::file_clock::now() - age);
}

TEST_F(FolderStoreTest, RemovesOldTemporaryFilesOfItsOwnAlone) {
  const fs::path temporary = folder_ / "store" / ".tmp";
  fs::create_directories(temporary);
  constexpr std::chrono::hours kOld(25);
  MakeFile(temporary / "theirs", kOld);
  MakeFile(temporary / "xorbit-1-2-3", kOld);
  MakeFile(temporary / "xorbit-1-2-4");
  MakeFile(folder_ / "elsewhere", kOld);
  fs::create_symlink(folder_ / "elsewhere", temporary / "xorbit-1-2-5");
  ASSERT_TRUE(Open()->PutNew("a", AsBytes("a")).ok());
  EXPECT_TRUE(fs::exists(temporary / "theirs"));
  EXPECT_FALSE(fs::exists(temporary / "xorbit-1-2-3"));
  EXPECT_TRUE(fs::exists(temporary / "xorbit-1-2-4"));
  EXPECT_TRUE(fs::exists(temporary / "xorbit-1-2-5"));
  EXPECT_TRUE(fs::exists(folder_ / "elsewhere"));
}

TEST_F(FolderStoreTest, WritesNothingThroughALinkInPlaceOfItsTemporaryFolder) {
  fs::create_directories(folder_ / "store");
  fs::create_directories(folder_ / "elsewhere");
  MakeFile(folder_ / "elsewhere" / "xorbit-1-2-3", std::chrono::hours(25));
  fs::create_directory_symlink(folder_ / "elsewhere", folder_ / "store" / ".tmp");
  EXPECT_EQ(Open()->PutNew("a", AsBytes("a")).code(), Code::kRefused);
  EXPECT_TRUE(fs::exists(folder_ / "elsewhere" / "xorbit-1-2-3"));
}

// Two links to the folder that they are in make 2^40 paths before the system stops counting.
TEST_F(FolderStoreTest, ListsNothingBehindLinkedFolders) {
  auto store = Open();
  ASSERT_TRUE(store->PutNew("s/v1/a", AsBytes("a")).ok());
  MakeFile(folder_ / "outside");
  for (const char* name : {"b", "c"}) fs::create_directory_symlink(".", folder_ / "store" / "s" / name);
  fs::create_directory_symlink(folder_.path(), folder_ / "store" / "s" / "v1" / "d");
  const auto objects = store->List("");
  ASSERT_TRUE(objects.ok());
  ASSERT_EQ(objects->size(), 1U);
  EXPECT_EQ(objects->front().key, "s/v1/a");
}

// A version whose record cannot be looked at is not an undecided one.
TEST_F(FolderStoreTest, WhatCannotBeLookedAtIsNotMissing) {
  auto store = Open();
  ASSERT_TRUE(store->PutNew("s/a", AsBytes("a")).ok());
  fs::create_symlink("loop", folder_ / "store" / "s" / "loop");
  Buffer byte(1);
  EXPECT_EQ(store->Get("s/loop", 4).status().code(), Code::kIo);
  EXPECT_EQ(store->Stat("s/loop").status().code(), Code::kIo);
  EXPECT_EQ(store->ReadInto("s/loop", 0, byte).code(), Code::kIo);
  EXPECT_EQ(store->List("s/").status().code(), Code::kIo);
}

TEST_F(FolderStoreTest, TakesTimesOutsideItsClockForTheNearest) {
  auto store = Open();
  ASSERT_TRUE(store->PutNew("a", AsBytes("a")).ok());
  const int64_t now = *store->NowNs();
  const auto modified_at = [&](int64_t seconds) {
    const timespec times[] = {{seconds, 0}, {seconds, 0}};
    EXPECT_EQ(::utimensat(AT_FDCWD, (folder_ / "store" / "a").c_str(), times, 0), 0);
    return store->Stat("a")->modified_ns;
  };
  EXPECT_GT(modified_at(int64_t{10'500'000'000}), now);  // in the year 2302: 2^63 ns end in 2262
  EXPECT_EQ(modified_at(-10), 0);
}

TEST_F(FolderStoreTest, HasOneClock) {
  auto store = Open();
  const Result<int64_t> before = store->NowNs();
  ASSERT_TRUE(store->PutNew("a", AsBytes("a")).ok());
  const Result<int64_t> after = store->NowNs();
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_LE(*before, store->Stat("a")->modified_ns);
  EXPECT_LE(store->Stat("a")->modified_ns, *after);
}

// What NFS does when a reply is lost: the client asks again, and hears that the name is there.
class LosingLinkReplies final : public ForwardingFileOps {
 public:
  explicit LosingLinkReplies(Status reply) : reply_(std::move(reply)) {}
  Status Link(const fs::path& from, const fs::path& to) override {
    (void)ForwardingFileOps::Link(from, to);
    return reply_;
  }

 private:
  const Status reply_;
};

TEST_F(FolderStoreTest, JudgesALostReplyByWhatIsThere) {
  for (const Status& reply : {IoError("connection lost"), ExistsError("is there")}) {
    LosingLinkReplies ops(reply);
    auto store = Open(ops);
    const std::string key = std::string(NameOf(reply.code()));
    EXPECT_TRUE(store->PutNew(key, AsBytes("mine")).ok());
    EXPECT_EQ(store->PutNew(key, AsBytes("other")).code(), Code::kExists);
    EXPECT_TRUE(store->PutNew(key, AsBytes("mine")).ok());
  }
}

class FailingLinks final : public ForwardingFileOps {
 public:
  Status Link(const fs::path&, const fs::path&) override { return IoError("stale handle"); }
};

TEST_F(FolderStoreTest, ReportsALinkThatFailed) {
  FailingLinks ops;
  auto store = Open(ops);
  EXPECT_EQ(store->PutNew("a", AsBytes("a")).code(), Code::kIo);
  EXPECT_EQ(store->Stat("a").status().code(), Code::kNotFound);
}

// Whatever a power cut leaves: the object is absent or whole, and it is there if PutNew had returned.
TEST_F(FolderStoreTest, SurvivesAPowerCutAtAnyCall) {
  std::mt19937_64 random(TestSeed());
  const std::string text(9000, 'x');
  RecordingFileOps ops(folder_.path());
  auto store = OpenStore(ops, folder_ / "store");
  ASSERT_TRUE(store->PutNew("s/v1/first", AsBytes(text)).ok());
  const uint64_t first_done = ops.call_count();
  ASSERT_TRUE(store->PutNew("s/v1/second", AsBytes(text)).ok());
  const uint64_t second_done = ops.call_count();
  for (uint64_t cut = 0; cut <= second_done; ++cut) {
    for (int round = 0; round < 5; ++round) {
      const TemporaryFolder left;
      ops.BuildAfterPowerCut(cut, random, left / "disk");
      const auto check = [&](const fs::path& key, bool must_be_there) {
        const Result<Buffer> bytes = ReadWholeFile(left / "disk" / "store" / key, 1 << 20);
        EXPECT_TRUE(bytes.ok() || !must_be_there) << key << " lost by a cut in call " << cut;
        EXPECT_TRUE(!bytes.ok() || AsText(*bytes) == text) << key << " torn by a cut in call " << cut;
      };
      check("s/v1/first", cut >= first_done);
      check("s/v1/second", cut >= second_done);
    }
  }
}

TEST_F(FolderStoreTest, CanBeTriedAgainAfterAnyFailure) {
  const auto put = [](ObjectStore& store) { return store.PutNew("s/v1/a", AsBytes("whole")); };
  uint64_t call_count = 0;
  {
    const TemporaryFolder place;
    RecordingFileOps ops(place.path());
    auto store = OpenStore(ops, place / "store");
    call_count = ops.call_count();
    ASSERT_TRUE(put(*store).ok());
    call_count = ops.call_count() - call_count;
  }
  for (uint64_t i = 0; i < call_count; ++i) {
    const TemporaryFolder place;
    RecordingFileOps ops(place.path());
    auto store = OpenStore(ops, place / "store");
    ops.FailCalls(ops.call_count() + i, ops.call_count() + i);
    const Status failed = put(*store);
    const Result<Buffer> there = store->Get("s/v1/a", 100);
    EXPECT_TRUE(there.ok() ? AsText(*there) == "whole" : !failed.ok());
    EXPECT_TRUE(put(*store).ok()) << "after a failure of call " << i;
    EXPECT_EQ(TextOf(*store, "s/v1/a"), "whole");
  }
}

// A writer died between link and fsync of the folder. Whoever finds the object must not lose it again.
class UnsyncedObject : public FolderStoreTest {
 protected:
  void SetUp() override {
    ops_ = std::make_unique<RecordingFileOps>(folder_.path());
    store_ = OpenStore(*ops_, folder_ / "store");
    ASSERT_TRUE(store_->PutNew("s/other", AsBytes("other")).ok());
    ops_->FailCalls(ops_->call_count() + 4, ops_->call_count() + 4);  // create, write, sync, link, then this
    ASSERT_EQ(store_->PutNew("s/a", AsBytes("a")).code(), Code::kIo);
    ASSERT_EQ(TextOf(*store_, "s/a"), "a");
  }
  bool MayBeLost() {
    std::mt19937_64 random(TestSeed());
    for (int round = 0; round < 50; ++round) {
      const TemporaryFolder left;
      ops_->BuildAfterPowerCut(ops_->call_count(), random, left / "disk");
      if (!fs::exists(left / "disk" / "store" / "s" / "a")) return true;
    }
    return false;
  }
  std::unique_ptr<RecordingFileOps> ops_;
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(UnsyncedObject, MayBeLost) { EXPECT_TRUE(MayBeLost()); }
TEST_F(UnsyncedObject, IsKeptByWhoeverPutsTheSame) {
  ASSERT_TRUE(store_->PutNew("s/a", AsBytes("a")).ok());
  EXPECT_FALSE(MayBeLost());
}
TEST_F(UnsyncedObject, IsKeptByWhoeverHearsThatItExists) {
  ASSERT_EQ(store_->PutNew("s/a", AsBytes("b")).code(), Code::kExists);
  EXPECT_FALSE(MayBeLost());
}
TEST_F(UnsyncedObject, IsKeptBySync) {
  ASSERT_TRUE(store_->Sync("s/a").ok());
  EXPECT_FALSE(MayBeLost());
}

}  // namespace
}  // namespace xorbit
