// A version whose record was lost: its number must not be decided again, for who holds its bytes would take others for the same
// version. Whatever else in the store tells of the decision must be heard.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/anchor.h"
#include "store/testing/made_up_stream.h"
#include "transport/testing/memory_store.h"

namespace xorbit {
namespace {

using ::testing::HasSubstr;
using namespace testing_store;  // NOLINT(google-build-using-namespace): the fixtures of these tests

class LostRecordTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kLost = 3;

  // Loses the newest record, and the hint too unless that is what is to tell of it.
  void Lose(bool keep_hint) {
    ASSERT_TRUE(store_.Remove(VersionRecordKey("run-1", kLost)).ok());
    if (keep_hint) return;
    ASSERT_TRUE(store_.Remove(HeadKey("run-1")).ok());
  }
  // The trace that a new trainer names when it wants to give the lost number to other weights, or up.
  void ExpectRefusalNaming(const std::string& trace) {
    const std::string record = VersionRecordKey("run-1", kLost);
    Stream trainer = Stream::Open(store_, "run-1").value();
    EXPECT_EQ(trainer.Newest().value(), kLost - 1);
    EXPECT_EQ(trainer.CheckFree(kLost).code(), Code::kCorrupt);
    for (const Status& status :
         {Publish(trainer, {kLost - 1, kLost, "other"}, 99).status(), trainer.Decide(AbortRecord(kLost)).status()}) {
      EXPECT_EQ(status.code(), Code::kCorrupt);
      EXPECT_THAT(status.message(), HasSubstr(record + " is missing, although " + trace + " tells that version 3 was decided"));
    }
    EXPECT_EQ(store_.Stat(record).status().code(), Code::kNotFound);
  }

  MemoryStore store_;
  Stream stream_ = CreateStream(store_);
};

TEST_F(LostRecordTest, IsToldByTheHint) {
  PublishChain(stream_, kLost);
  const Buffer record = store_.Get(VersionRecordKey("run-1", kLost), kMaxVersionRecordBytes).value();
  Lose(/*keep_hint=*/true);
  ExpectRefusalNaming("run-1/head.json");
  ASSERT_TRUE(store_.PutNew(VersionRecordKey("run-1", kLost), record).ok());  // restored
  EXPECT_TRUE(Stream::Open(store_, "run-1")->CheckFree(kLost + 1).ok());
  EXPECT_TRUE(Publish(stream_, {kLost, kLost + 1, "t"}, 4)->committed());
}

TEST_F(LostRecordTest, IsNotSuspectedBecauseOfADamagedHint) {
  PublishChain(stream_, kLost);
  const std::string key = HeadKey("run-1");
  const uint64_t byte_count = store_.Stat(key)->byte_count;
  for (uint64_t bit = 0; bit < 8 * byte_count; ++bit) {
    const auto flip = [bit](Buffer* bytes) { (*bytes)[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8); };
    store_.Corrupt(key, flip);
    EXPECT_TRUE(stream_.CheckFree(kLost + 1).ok()) << "bit " << bit;
    store_.Corrupt(key, flip);
  }
}

TEST_F(LostRecordTest, OfAnAbortedVersionIsToldByTheHint) {
  PublishChain(stream_, kLost - 1);
  ASSERT_TRUE(stream_.Decide(AbortRecord(kLost)).ok());
  Lose(/*keep_hint=*/true);
  ExpectRefusalNaming("run-1/head.json");
}

TEST_F(LostRecordTest, IsToldByAReceiptThatStartsFromIt) {
  PublishChain(stream_, kLost);
  const PublicationPlace next{kLost, kLost + 1, "t"};
  ASSERT_TRUE(Deliver(stream_, MakePublication(stream_, next, stream_.Record(kLost).value()->target, 2, 4)).ok());
  Lose(/*keep_hint=*/false);
  ExpectRefusalNaming(ReceiptKey("run-1", next, 1));
}

TEST_F(LostRecordTest, IsToldByAFold) {
  PublishChain(stream_, kLost);
  ASSERT_TRUE(PutFold(stream_, 0, kLost).ok());
  Lose(/*keep_hint=*/false);
  ExpectRefusalNaming(store_.List(PlaceFolder("run-1", {0, kLost, "fold"}))->back().key);
}

TEST_F(LostRecordTest, IsToldByTheWholeVersion) {
  PublishChain(stream_, kLost);
  const AnchorSource file{"model.safetensors", AsBytes("weights")};
  ASSERT_TRUE(PutAnchor(stream_, kLost, std::span(&file, 1)).ok());
  Lose(/*keep_hint=*/false);
  ExpectRefusalNaming(ReadAnchor(stream_, kLost)->folder + "model.safetensors");
}

TEST_F(LostRecordTest, IsToldByTombstones) {
  PublishChain(stream_, kLost);
  ASSERT_TRUE(stream_.PutTombstones({1, {{kLost - 1, kLost, "lost"}}, {}}).ok());
  Lose(/*keep_hint=*/false);
  ExpectRefusalNaming("run-1/tombstones");
}

TEST_F(LostRecordTest, IsNotSuspectedWhereOnlyPublicationsToItAre) {
  PublishChain(stream_, kLost);
  Lose(/*keep_hint=*/false);  // nothing tells that version 3 was decided, and one publication to it is sealed
  Stream trainer = Stream::Open(store_, "run-1").value();
  EXPECT_EQ(trainer.Decide(CommitRecord(trainer.Seal({kLost - 1, kLost, "t"}).value()))->publication_id, "t");
}

TEST_F(LostRecordTest, IsNotCreatedAgainWhereItsDescriptionIsLost) {
  PublishChain(stream_, 1);
  ASSERT_TRUE(store_.Remove(StreamInfoKey("run-1")).ok());
  StreamInfo other = SmallStreamInfo();
  other.base.lane0 ^= 1;
  const Status status = Stream::Create(store_, other, testing_payload::SmallLayout()).status();
  EXPECT_THAT(status.message(), HasSubstr("run-1/stream.json is missing, although version 0 is decided"));
  EXPECT_EQ(store_.Stat(StreamInfoKey("run-1")).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace xorbit
