// A store that was put back to an older copy, and published into again, under a process that has read what was there before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "store/testing/made_up_stream.h"
#include "store/testing/put_back.h"
#include "transport/testing/forwarding_store.h"
#include "transport/testing/memory_store.h"

namespace xorbit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing_store;  // NOLINT(google-build-using-namespace): the fixtures of these tests

// Tells which objects were read.
class ReadStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<Buffer> Get(std::string_view key, uint64_t limit_bytes) override {
    keys.emplace_back(key);
    return ForwardingStore::Get(key, limit_bytes);
  }
  std::vector<std::string> keys;
};

class RewrittenStreamTest : public ::testing::Test {
 protected:
  RewrittenStreamTest() {
    PublishChain(trainer_, 4);
    EXPECT_EQ(reader_.Newest().value(), 4);
    held_ = reader_.Record(4).value()->target;
  }
  // A trainer that knows of nothing later publishes other weights from there on.
  Stream PutBackTo(uint64_t version) {
    PutBack(store_, "run-1", version);
    return Stream::Open(store_, "run-1").value();
  }
  static void PublishOthers(Stream& trainer, uint64_t first, uint64_t last) {
    for (uint64_t version = first; version <= last; ++version) {
      ASSERT_TRUE(Publish(trainer, {version - 1, version, "other"}, 100 + version)->committed());
    }
  }
  void ExpectRefusal(const std::string& what) {
    const Status status = reader_.ProveHeld(4, held_);
    EXPECT_EQ(status.code(), Code::kRefused);
    EXPECT_THAT(status.message(), HasSubstr(what));
    EXPECT_EQ(reader_.CheckHeld(4, held_).message(), status.message());
  }

  MemoryStore store_;
  Stream trainer_ = CreateStream(store_);
  ReadStore read_store_{store_};
  Stream reader_ = Stream::Open(read_store_, "run-1").value();
  StateDigest held_;
};

TEST_F(RewrittenStreamTest, IsNoticedAndReadAnew) {
  ASSERT_EQ(reader_.StepEdge(4)->publication_id, "t");
  Stream other = PutBackTo(2);
  PublishOthers(other, 3, 4);
  EXPECT_TRUE(reader_.CheckHeld(4, held_).ok());  // as it was read
  EXPECT_EQ(reader_.Newest().value(), 4);
  EXPECT_THAT(reader_.CheckHeld(4, held_).message(), HasSubstr("was rewritten: its version 4 is another state"));
  ExpectRefusal("was rewritten: its version 4 is another state");
  EXPECT_TRUE(reader_.ProveHeld(2, reader_.Record(2).value()->target).ok());
  EXPECT_EQ(reader_.StepEdge(4)->publication_id, "other");  // nothing of the old one is remembered
  EXPECT_EQ(reader_.Route(2, 4)->size(), 2);
}

TEST_F(RewrittenStreamTest, IsNoticedByWhoHoldsAnOlderVersionThanTheNewest) {
  Stream other = PutBackTo(2);
  PublishOthers(other, 3, 6);
  EXPECT_EQ(reader_.Newest().value(), 6);
  ExpectRefusal("was rewritten");
}

TEST_F(RewrittenStreamTest, IsNoticedBehindAVersionThatWasGivenUp) {
  ASSERT_TRUE(trainer_.Decide(AbortRecord(5)).ok());
  EXPECT_EQ(reader_.Newest().value(), 4);
  Stream other = PutBackTo(2);
  PublishOthers(other, 3, 4);
  ASSERT_TRUE(other.Decide(AbortRecord(5)).ok());
  EXPECT_EQ(reader_.Newest().value(), 4);
  EXPECT_THAT(reader_.CheckHeld(4, held_).message(), HasSubstr("was rewritten"));
}

TEST_F(RewrittenStreamTest, ThatHasGoneBackNamesTheRecordAndHoldsOnceItIsRestored) {
  const std::string key = VersionRecordKey("run-1", 4);
  const Buffer record = store_.Get(key, kMaxVersionRecordBytes).value();
  PutBack(store_, "run-1", 3);
  ExpectRefusal("has gone back behind version 4, which is held here: restore " + key);
  EXPECT_EQ(reader_.Newest().value(), 3);
  ASSERT_TRUE(store_.PutNew(key, record).ok());
  EXPECT_TRUE(reader_.ProveHeld(4, held_).ok());
  EXPECT_EQ(reader_.Newest().value(), 4);
}

// As of a folder that is not mounted.
TEST_F(RewrittenStreamTest, IsNotWhereTheWholeStoreIsGone) {
  std::map<std::string, Buffer> kept;
  const std::vector<ObjectInfo> objects = store_.List("").value();
  for (const ObjectInfo& object : objects) {
    kept[object.key] = store_.Get(object.key, object.byte_count).value();
    ASSERT_TRUE(store_.Remove(object.key).ok());
  }
  EXPECT_EQ(reader_.ProveHeld(4, held_).code(), Code::kIo);
  EXPECT_THAT(reader_.Newest().status().message(), HasSubstr("the store holds no stream 'run-1' any more"));
  EXPECT_TRUE(reader_.CheckHeld(4, held_).ok());
  for (const auto& [key, bytes] : kept) ASSERT_TRUE(store_.PutNew(key, bytes).ok());
  EXPECT_TRUE(reader_.ProveHeld(4, held_).ok());
}

TEST_F(RewrittenStreamTest, WithTheSameStatesHoldsWhatItHeld) {
  Stream other = PutBackTo(3);
  ASSERT_TRUE(Publish(other, {3, 4, "again"}, 4)->committed());
  EXPECT_TRUE(reader_.ProveHeld(4, held_).ok());
  EXPECT_EQ(reader_.StepEdge(4)->publication_id, "again");
}

TEST_F(RewrittenStreamTest, CostsWhoPollsOneSmallRead) {
  const std::string head = HeadKey("run-1");
  const auto record = [](uint64_t version) { return VersionRecordKey("run-1", version); };
  read_store_.keys.clear();
  EXPECT_EQ(reader_.Newest().value(), 4);
  EXPECT_THAT(read_store_.keys, ElementsAre(head, record(5), record(4)));
  PublishOthers(trainer_, 5, 5);
  read_store_.keys.clear();
  EXPECT_EQ(reader_.Newest().value(), 5);  // what is new was read just now
  EXPECT_TRUE(reader_.CheckHeld(4, held_).ok());
  EXPECT_THAT(read_store_.keys, ElementsAre(head, record(5), record(6)));
}

}  // namespace
}  // namespace xorbit
