// Collecting: what goes, when, in which order, and that nobody can lose every way to the newest version.
#include "store/gc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/testing/seed.h"
#include "store/anchor.h"
#include "store/testing/made_up_stream.h"
#include "transport/testing/memory_store.h"

namespace xorbit {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kGraceNs = 1000;

class GcTest : public ::testing::Test {
 protected:
  static StreamInfo Info() {
    StreamInfo info = testing_store::SmallStreamInfo();
    info.resume_window = 4;
    return info;
  }
  GcReport Collect(Stream& stream, uint64_t version_count = 4) {
    GcOptions options;
    options.policy.version_count = version_count;
    options.grace_ns = kGraceNs;
    const Result<GcReport> report = CollectGarbage(stream, options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return *report;
  }
  void Wait() { store_.SetNowNs(now_ns_ += kGraceNs); }
  size_t EdgeCount() { return Stream::Open(store_, "run-1")->Edges(0, kMaxVersion)->size(); }

  MemoryStore store_;
  int64_t now_ns_ = 0;
  Stream stream_ = testing_store::CreateStream(store_, Info());
};

TEST_F(GcTest, GivesUpThenRemovesManifestsFirst) {
  testing_store::PublishChain(stream_, 60);
  ASSERT_TRUE(testing_store::PutFold(stream_, 0, 48).ok());
  const GcReport listed = Collect(stream_);
  EXPECT_EQ(listed.listed_count, 48U);
  EXPECT_EQ(listed.removed_object_count, 0U);
  EXPECT_EQ(EdgeCount(), 13U);                                       // at once: the fold, and 48 ... 60
  EXPECT_TRUE(store_.Stat(ManifestKey("run-1", {3, 4, "t"})).ok());  // for whoever is fetching it
  EXPECT_EQ(Collect(stream_).removed_object_count, 0U);
  Wait();
  std::vector<std::string> removed;
  store_.fault = [&removed](std::string_view call, std::string_view key) {
    if (call == "Remove" && key.starts_with("run-1/v000004/")) removed.emplace_back(key.substr(key.rfind('/') + 1, 7));
    return MemoryStore::Fault::kNone;
  };
  EXPECT_EQ(Collect(stream_).removed_object_count, 48U * 5);
  EXPECT_THAT(removed, ElementsAre("manifes", "owner-0", "owner-0", "receipt", "receipt"));
  EXPECT_EQ(Collect(stream_).removed_object_count, 0U);
  EXPECT_EQ(stream_.Route(0, 60)->size(), 13U);
  EXPECT_EQ(stream_.Route(30, 60).status().code(), Code::kNotFound);
  EXPECT_TRUE(stream_.Record(30).value()->committed());  // decisions stay
}

TEST_F(GcTest, ContinuesWhatWasInterrupted) {
  testing_store::PublishChain(stream_, 60);
  ASSERT_TRUE(testing_store::PutFold(stream_, 0, 48).ok());
  Collect(stream_);
  Wait();
  int calls = 0;
  store_.fault = [&calls](std::string_view call, std::string_view) {
    return call == "Remove" && ++calls % 7 == 0 ? MemoryStore::Fault::kFails : MemoryStore::Fault::kNone;
  };
  GcOptions options;
  options.policy.version_count = 4;
  options.grace_ns = kGraceNs;
  int rounds = 0;
  while (!CollectGarbage(stream_, options).ok()) ASSERT_LT(++rounds, 100);
  EXPECT_GT(rounds, 10);
  EXPECT_THAT(store_.List("run-1/v000004/from").value(), IsEmpty());
  EXPECT_EQ(stream_.Route(0, 60)->size(), 13U);
}

TEST_F(GcTest, RemovesWhatLostOrDied) {
  const testing_store::MadeUpPublication dead = testing_store::MakePublication(stream_, {0, 1, "dead"}, Info().base, 2, 5);
  ASSERT_TRUE(testing_store::Deliver(stream_, dead).ok());
  EXPECT_EQ(Collect(stream_).listed_count, 0U);
  Wait();
  EXPECT_EQ(Collect(stream_).listed_count, 0U);  // version 1 is not decided: it may yet win
  testing_store::PublishChain(stream_, 1);
  EXPECT_EQ(Collect(stream_).listed_count, 1U);
  Wait();
  EXPECT_EQ(Collect(stream_).removed_object_count, 4U);
  EXPECT_EQ(EdgeCount(), 1U);
  // Its late write comes back to life as garbage only, and the list says so already.
  ASSERT_TRUE(stream_.PutPayload(dead.place, dead.payloads[0]).ok());
  EXPECT_EQ(Collect(stream_).removed_object_count, 1U);
}

TEST_F(GcTest, LeavesAWholeVersionZeroThatIsNotFinished) {
  ASSERT_TRUE(store_.PutNew(AnchorsFolder("run-1", 0) + "1234567890abcdef/model.safetensors", AsBytes("weights")).ok());
  testing_store::PublishChain(stream_, 1);
  ASSERT_TRUE(store_.PutNew(AnchorsFolder("run-1", 1) + "1234567890abcdef/model.safetensors", AsBytes("weights")).ok());
  Wait();
  EXPECT_EQ(Collect(stream_).listed_count, 1U);  // version 1's
  const AnchorSource file{"model.safetensors", AsBytes("weights")};
  EXPECT_TRUE(PutAnchor(stream_, 0, std::span(&file, 1)).ok());
}

TEST_F(GcTest, AnAnchorThatTookLongerThanTheGraceIsNotTakenForWhole) {
  testing_store::PublishChain(stream_, 1);
  Stream collector = Stream::Open(store_, "run-1").value();
  store_.fault = [&](std::string_view call, std::string_view key) {
    if (call == "PutNew" && key.ends_with("anchor.json")) {
      Wait();
      Collect(collector);
    }
    return MemoryStore::Fault::kNone;
  };
  const AnchorSource file{"model.safetensors", AsBytes("weights")};
  const Status status = PutAnchor(stream_, 1, std::span(&file, 1));
  EXPECT_EQ(status.code(), Code::kRefused);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("given up before it was whole"));
}

// A step and a fold that are badly read for a while, by a collector that comes long after: when they are whole again, so is the
// way.
TEST_F(GcTest, NeverGivesUpWhatIsOnlyDamaged) {
  testing_store::PublishChain(stream_, 20);
  ASSERT_TRUE(testing_store::PutFold(stream_, 0, 16).ok());
  Collect(stream_);
  Wait();
  Collect(stream_);
  const std::vector<ObjectInfo> objects = store_.List("run-1/v").value();
  for (const ObjectInfo& object : objects) {
    const bool is_of_way =
        object.key.starts_with("run-1/v000016/from_v000000/") || object.key.starts_with("run-1/v000018/from_");
    if (!is_of_way) continue;
    Buffer whole;
    store_.Corrupt(object.key, [&whole](Buffer* bytes) {
      whole = *bytes;
      bytes->resize(bytes->size() / 2);
    });
    Wait();
    Stream collector = Stream::Open(store_, "run-1").value();
    Collect(collector);
    store_.Corrupt(object.key, [&whole](Buffer* bytes) { *bytes = whole; });
    Wait();
    Collect(collector);  // has seen the damage, and sees that it is gone
    for (Stream* stream : {&collector, &stream_}) EXPECT_TRUE(stream->Route(0, 20).ok()) << object.key;
  }
}

TEST_F(GcTest, KeepsTheNewestAnchor) {
  testing_store::PublishChain(stream_, 60);
  const AnchorSource file{"model.safetensors", AsBytes("weights")};
  for (const uint64_t version : {10, 20}) ASSERT_TRUE(PutAnchor(stream_, version, std::span(&file, 1)).ok());
  EXPECT_EQ(PutAnchor(stream_, 70, std::span(&file, 1)).code(), Code::kRefused);
  EXPECT_THAT(AnchorVersions(stream_).value(), ElementsAre(10, 20));
  Collect(stream_);
  EXPECT_THAT(AnchorVersions(stream_).value(), ElementsAre(20));
  EXPECT_EQ(ReadAnchor(stream_, 10).status().code(), Code::kNotFound);
  EXPECT_EQ(PutAnchor(stream_, 10, std::span(&file, 1)).code(), Code::kRefused);
  EXPECT_EQ(ReadAnchor(stream_, 20)->anchor.state, stream_.Record(20).value()->target);
  Wait();
  Collect(stream_);
  EXPECT_THAT(store_.List("run-1/v000010/full").value(), IsEmpty());
  EXPECT_TRUE(stream_.Route(20, 60).ok() && stream_.Route(0, 60).ok());
}

// Two collectors and a trainer that goes back as far as it may, in any order: a way always stays, and it can be fetched.
TEST_F(GcTest, NeverLosesTheWayToTheNewest) {
  std::mt19937_64 random(TestSeed());
  std::vector<Stream> collectors;
  for (int i = 0; i < 2; ++i) collectors.push_back(Stream::Open(store_, "run-1").value());
  for (int round = 0; round < 300; ++round) {
    const uint64_t newest = stream_.Newest().value();
    const uint64_t free = stream_.NextFree().value();
    const uint64_t choice = random() % 10;
    if (choice < 5) {
      uint64_t base = newest - std::min(newest, random() % 3 == 0 ? random() % 4 : 0);
      if (free - base > Info().resume_window || !stream_.Record(base).value()->committed()) base = newest;
      ASSERT_TRUE(testing_store::Publish(stream_, {base, free, "t"}, free).ok());
    } else if (choice < 6) {
      ASSERT_TRUE(stream_.Decide(AbortRecord(free)).ok());
    } else if (choice < 8) {
      Collect(collectors[random() % 2], 1 + random() % 4);
      Wait();
    } else if (newest > 3) {
      const uint64_t from = newest - 1 - random() % 3;
      if (stream_.Record(from).value()->committed()) (void)testing_store::PutFold(stream_, from, newest);
    }
    Stream reader = Stream::Open(store_, "run-1").value();
    const auto route = reader.Route(0, reader.Newest().value());
    ASSERT_TRUE(route.ok()) << route.status().message();
    for (const Hop& hop : *route) {
      const Manifest manifest = reader.ReadManifest(PlaceOf(hop.edge)).value();
      for (const ManifestOwner& owner : manifest.owners) {
        ASSERT_TRUE(store_.Stat(PayloadKey("run-1", PlaceOf(hop.edge), owner)).ok());
      }
    }
  }
}

}  // namespace
}  // namespace xorbit
