// The stream's two sides against each other: what is decided, what is offered, and what is refused and why.
#include "store/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/checksum_field.h"
#include "base/temporary_folder.h"
#include "store/checked_text.h"
#include "store/fetch.h"
#include "store/gc.h"
#include "store/head_hint.h"
#include "store/testing/made_up_stream.h"
#include "transport/folder_store.h"
#include "transport/testing/memory_store.h"

namespace xorbit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing_store;  // NOLINT(google-build-using-namespace): the fixtures of these tests

std::vector<std::string> NamesOf(const Result<std::vector<Edge>>& edges) {
  std::vector<std::string> names;
  EXPECT_TRUE(edges.ok()) << edges.status().message();
  for (const Edge& edge : *edges) {
    names.push_back(std::to_string(edge.from) + "-" + std::to_string(edge.to) + " " + edge.publication_id);
  }
  return names;
}

class StreamTest : public ::testing::Test {
 protected:
  Result<std::vector<Edge>> AllEdges() { return stream_.Edges(0, kMaxVersion); }
  Status SealError(const MadeUpPublication& made) {
    EXPECT_TRUE(Deliver(stream_, made).ok());
    return stream_.Seal(made.place).status();
  }
  MadeUpPublication Made(std::string id, uint64_t seed = 1) {
    return MakePublication(stream_, {0, 1, std::move(id)}, stream_.info().base, 2, seed);
  }

  MemoryStore store_;
  Stream stream_ = CreateStream(store_);
};

TEST_F(StreamTest, IsCreatedOnceAndFound) {
  EXPECT_TRUE(Stream::Create(store_, SmallStreamInfo(), testing_payload::SmallLayout()).ok());
  StreamInfo other = SmallStreamInfo();
  other.base.lane0 ^= 1;
  EXPECT_EQ(Stream::Create(store_, other, testing_payload::SmallLayout()).status().code(), Code::kExists);
  const Result<Stream> found = Stream::Open(store_, "");
  ASSERT_TRUE(found.ok());
  StreamInfo info = SmallStreamInfo();
  info.layout_sha256 = Sha256Of(AsBytes(WriteLayoutJson(testing_payload::SmallLayout())));
  EXPECT_EQ(found->info(), info);
  EXPECT_EQ(found->layout().digest(), testing_payload::SmallLayout().digest());
  EXPECT_EQ(Stream::Open(store_, "run-2").status().code(), Code::kNotFound);
  EXPECT_EQ(Stream::Open(store_, "../x").status().code(), Code::kUsage);
  other.stream_id = "run-2";
  CreateStream(store_, other);
  EXPECT_THAT(Stream::Open(store_, "").status().message(), HasSubstr("2 streams (run-1, run-2)"));
}

TEST_F(StreamTest, PublishesVersionsAndOffersThem) {
  PublishChain(stream_, 3);
  Stream reader = Stream::Open(store_, "run-1").value();
  EXPECT_EQ(reader.Newest().value(), 3U);
  EXPECT_EQ(reader.NextFree().value(), 4U);
  EXPECT_THAT(NamesOf(reader.Edges(0, 3)), ElementsAre("0-1 t", "1-2 t", "2-3 t"));
  EXPECT_THAT(NamesOf(reader.Edges(1, 2)), ElementsAre("1-2 t"));
  EXPECT_THAT(NamesOf(reader.EdgesInto(1, 2)), ElementsAre("0-1 t", "1-2 t"));
  EXPECT_THAT(NamesOf(reader.EdgesInto(3, 9)), ElementsAre("2-3 t"));
  const Edge edge = reader.Edges(1, 2)->front();
  const Manifest manifest = reader.ReadManifest(PlaceOf(edge)).value();
  EXPECT_EQ(manifest.base, reader.Record(1).value()->target);
  uint64_t byte_count = store_.Stat(edge.manifest_key)->byte_count;
  for (const ManifestOwner& owner : manifest.owners)
    byte_count += store_.Stat(PayloadKey("run-1", PlaceOf(edge), owner))->byte_count;
  EXPECT_EQ(edge.byte_count, byte_count);
  const std::vector<Hop> back = reader.Route(3, 1).value();
  ASSERT_EQ(back.size(), 2U);
  EXPECT_TRUE(back[0].backward && back[0].edge.to == 3 && back[1].edge.from == 1);
  EXPECT_TRUE(reader.Route(2, 2)->empty());
}

TEST_F(StreamTest, DecidesOnce) {
  ASSERT_TRUE(Deliver(stream_, Made("a", 1)).ok());
  ASSERT_TRUE(Deliver(stream_, Made("b", 2)).ok());
  const Manifest a = stream_.Seal({0, 1, "a"}).value();
  const Manifest b = stream_.Seal({0, 1, "b"}).value();
  Stream other = Stream::Open(store_, "run-1").value();
  EXPECT_EQ(stream_.Decide(CommitRecord(a)).value(), CommitRecord(a));
  EXPECT_EQ(other.Decide(CommitRecord(b)).value(), CommitRecord(a));
  EXPECT_EQ(other.Decide(AbortRecord(1)).value(), CommitRecord(a));
  EXPECT_EQ(stream_.Decide(CommitRecord(a)).value(), CommitRecord(a));
  // What lost is no delta, sealed as it is.
  EXPECT_THAT(NamesOf(AllEdges()), ElementsAre("0-1 a"));
  EXPECT_THAT(stream_.ReadManifest({0, 1, "b"}).status().message(), HasSubstr("does not lead to what version 1 is"));
}

TEST_F(StreamTest, GoesOnAfterAnAbortedVersionAndFromAnOlderOne) {
  EXPECT_EQ(stream_.Decide(AbortRecord(1)).value(), AbortRecord(1));
  ASSERT_TRUE(Publish(stream_, {0, 2, "t"}, 1)->committed());
  ASSERT_TRUE(Publish(stream_, {2, 3, "t"}, 2)->committed());
  ASSERT_TRUE(Publish(stream_, {2, 4, "resumed"}, 3)->committed());
  EXPECT_EQ(stream_.Newest().value(), 4U);
  EXPECT_EQ(stream_.Decide(AbortRecord(5)).value(), AbortRecord(5));
  EXPECT_EQ(stream_.Newest().value(), 4U);
  EXPECT_EQ(stream_.NextFree().value(), 6U);
  const std::vector<Hop> route = stream_.Route(3, 4).value();
  ASSERT_EQ(route.size(), 2U);
  EXPECT_TRUE(route[0].backward && !route[1].backward);
  EXPECT_EQ(stream_.Route(1, 4).status().code(), Code::kRefused);
}

TEST_F(StreamTest, LeavesNoGaps) {
  EXPECT_THAT(stream_.Decide(AbortRecord(2)).status().message(), HasSubstr("version 1 must be decided first"));
  EXPECT_EQ(stream_.Decide(AbortRecord(0)).status().code(), Code::kUsage);
}

TEST_F(StreamTest, FindsTheNewestWhateverTheHintSays) {
  PublishChain(stream_, 9);
  const auto newest = [this] { return Stream::Open(store_, "run-1")->Newest().value(); };
  for (const std::string& hint : {std::string(), std::string("nonsense"), WriteHeadHint(3), WithChecksum("{}\n")}) {
    ASSERT_TRUE(store_.Replace(HeadKey("run-1"), AsBytes(hint)).ok());
    EXPECT_EQ(newest(), 9U) << hint;
  }
  for (const uint64_t hint : {0, 1, 8, 9, 10, 1000000}) {
    ASSERT_TRUE(store_.Replace(HeadKey("run-1"), AsBytes(WithChecksum(WriteHeadHint(hint)))).ok());
    EXPECT_EQ(newest(), 9U) << hint;
  }
  ASSERT_TRUE(store_.Remove(HeadKey("run-1")).ok());
  EXPECT_EQ(newest(), 9U);
}

// A hostile record far away, or one that got lost: nobody counts up to it, or takes an older version for the newest.
TEST_F(StreamTest, NoticesAGapBelowADecidedVersion) {
  PublishChain(stream_, 3);
  ASSERT_TRUE(store_.Replace(HeadKey("run-1"), AsBytes(WithChecksum(WriteHeadHint(kMaxVersion)))).ok());
  VersionRecord far = *stream_.Record(3).value();
  far.version = kMaxVersion;
  const auto reader_of = [&](const VersionRecord& record) {
    const std::string key = VersionRecordKey("run-1", kMaxVersion);
    EXPECT_TRUE(store_.Remove(key).ok());
    EXPECT_TRUE(PutText(store_, key, WriteVersionRecord(record)).ok());
    return Stream::Open(store_, "run-1").value();
  };
  Stream reader = reader_of(far);
  EXPECT_EQ(reader.Newest().value(), kMaxVersion);
  EXPECT_EQ(reader.CommittedVersions(kMaxVersion).status().code(), Code::kCorrupt);
  const Status way = reader.Route(0, kMaxVersion).status();
  EXPECT_EQ(way.code(), Code::kCorrupt);
  EXPECT_THAT(way.message(), HasSubstr("v999999999998/version.json is missing"));
  EXPECT_EQ(CollectGarbage(reader, {}).status().code(), Code::kCorrupt);
  EXPECT_EQ(reader_of(AbortRecord(kMaxVersion)).Newest().status().code(), Code::kCorrupt);
}

TEST_F(StreamTest, OffersFoldsThatFit) {
  PublishChain(stream_, 4);
  ASSERT_TRUE(PutFold(stream_, 0, 4).ok());
  ASSERT_TRUE(PutFold(stream_, 0, 4).ok());
  EXPECT_THAT(NamesOf(stream_.Edges(0, 4)), ElementsAre("0-1 t", "1-2 t", "2-3 t", "0-4 fold", "3-4 t"));
  EXPECT_EQ(stream_.Route(0, 4)->size(), 1U);
  EXPECT_EQ(stream_.Route(4, 0)->size(), 1U);
}

TEST_F(StreamTest, WithoutListingOffersWhatDecided) {
  PublishChain(stream_, 3);
  ASSERT_TRUE(PutFold(stream_, 0, 2).ok());
  store_.can_list = false;
  EXPECT_THAT(NamesOf(AllEdges()), ElementsAre("0-1 t", "1-2 t", "2-3 t"));
  EXPECT_EQ(stream_.Route(0, 3)->size(), 3U);
}

TEST_F(StreamTest, DoesNotOfferWhatIsDamaged) {
  PublishChain(stream_, 2);
  store_.Corrupt(ManifestKey("run-1", {0, 1, "t"}), [](Buffer* bytes) { (*bytes)[bytes->size() / 2] ^= 1; });
  const Edge second = Stream::Open(store_, "run-1")->StepEdge(2).value();
  const ManifestOwner owner = stream_.ReadManifest(PlaceOf(second))->owners[1];
  store_.Corrupt(PayloadKey("run-1", {1, 2, "t"}, owner), [](Buffer* bytes) { bytes->pop_back(); });
  EXPECT_THAT(NamesOf(Stream::Open(store_, "run-1")->Edges(0, 9)), ElementsAre());
}

TEST_F(StreamTest, GoesOtherWaysThanTheDamagedAndTheAvoided) {
  PublishChain(stream_, 3);
  ASSERT_TRUE(PutFold(stream_, 0, 3).ok());
  const PublicationPlace step{2, 3, "t"};
  EXPECT_EQ(stream_.Route(2, 3)->size(), 1U);
  EXPECT_EQ(stream_.Route(2, 3, {step})->size(), 3U);  // 2 -> 1 -> 0 -> 3
  EXPECT_EQ(stream_.Route(2, 3, {step, {0, 3, "fold"}}).status().code(), Code::kNotFound);
  store_.Corrupt(ManifestKey("run-1", step), [](Buffer* bytes) { bytes->back() ^= 1; });
  Stream reader = Stream::Open(store_, "run-1").value();
  EXPECT_EQ(reader.Route(2, 3)->size(), 3U);
  EXPECT_EQ(reader.Route(2, 3, {{0, 3, "fold"}}).status().code(), Code::kCorrupt);
}

TEST_F(StreamTest, NamesTheDamagedDeltaWhereThereIsNoOtherWay) {
  PublishChain(stream_, 3);
  const std::string key = ManifestKey("run-1", {1, 2, "t"});
  store_.Corrupt(key, [](Buffer* bytes) { bytes->pop_back(); });
  Stream reader = Stream::Open(store_, "run-1").value();
  const Status status = FetchWay(reader, 0, 3, {}).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("the delta to version 2 is damaged: " + key));
  store_.Corrupt(key, [](Buffer* bytes) { bytes->push_back('\n'); });
  EXPECT_TRUE(reader.FindDamage(0, 3).ok());
  ASSERT_TRUE(store_.Remove(PayloadKey("run-1", {2, 3, "t"}, reader.ReadManifest({2, 3, "t"})->owners[0])).ok());
  EXPECT_THAT(FetchWay(reader, 0, 3, {}).status().message(), HasSubstr("the delta to version 3 is damaged: payload"));
}

TEST_F(StreamTest, FetchesNoMoreThanADeltaCanHold) {
  ASSERT_TRUE(Publish(stream_, {0, 1, "t"}, 1).ok());
  Manifest huge = stream_.ReadManifest(PlaceOf(stream_.StepEdge(1).value())).value();
  huge.stream->base_version = 1;
  huge.stream->target_version = 2;
  huge.base = huge.target;
  for (ManifestOwner& owner : huge.owners) {
    owner.byte_count = uint64_t{1} << 40;
    huge.target += owner.change;
  }
  const std::string text = StreamManifestText(huge);
  ASSERT_TRUE(store_.PutNew(ManifestKey("run-1", {1, 2, "t"}), AsBytes(text)).ok());
  ASSERT_TRUE(PutText(store_, VersionRecordKey("run-1", 2), WriteVersionRecord(CommitRecord(huge))).ok());
  Stream reader = Stream::Open(store_, "run-1").value();
  const Status status = FetchWay(reader, 1, 2, {}).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("larger than any delta of this model"));
}

// Nothing else vouches for a fold's manifest, and a reader remembers what it has judged.
TEST_F(StreamTest, BelievesNoFlippedBitOfAFold) {
  PublishChain(stream_, 2);
  ASSERT_TRUE(PutFold(stream_, 0, 2).ok());
  const std::string key = ManifestKey("run-1", {0, 2, "fold"});
  const uint64_t byte_count = store_.Stat(key)->byte_count;
  Stream reader = Stream::Open(store_, "run-1").value();
  for (uint64_t bit = 0; bit < 8 * byte_count; bit += 3) {
    const auto flip = [bit](Buffer* bytes) { (*bytes)[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8); };
    store_.Corrupt(key, flip);
    EXPECT_EQ(reader.ReadManifest({0, 2, "fold"}).status().code(), Code::kCorrupt) << "bit " << bit;
    EXPECT_THAT(NamesOf(reader.Edges(0, 2)), ElementsAre("0-1 t", "1-2 t")) << "bit " << bit;
    store_.Corrupt(key, flip);
  }
  EXPECT_THAT(NamesOf(reader.Edges(0, 2)), ElementsAre("0-1 t", "0-2 fold", "1-2 t"));
}

TEST_F(StreamTest, SurvivesLostReplies) {
  int calls = 0;
  store_.fault = [&calls](std::string_view, std::string_view) {
    return ++calls % 2 == 1 ? MemoryStore::Fault::kLostReply : MemoryStore::Fault::kNone;
  };
  const MadeUpPublication made = Made("t");
  const auto twice = [](const auto& call) {
    const Status status = call();
    return status.ok() ? status : call();
  };
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(twice([&] { return stream_.PutPayload(made.place, made.payloads[i]); }).ok());
    ASSERT_TRUE(twice([&] { return stream_.PutReceipt(made.receipts[i]); }).ok());
  }
  ASSERT_TRUE(twice([&] { return stream_.Seal(made.place).status(); }).ok());
  calls = 1;
  const VersionRecord record = CommitRecord(stream_.Seal(made.place).value());
  calls = 0;  // the decision's own reply is lost
  EXPECT_EQ(stream_.Decide(record).status().code(), Code::kIo);
  EXPECT_EQ(stream_.Decide(record).value(), record);
}

// --- what is refused ---

TEST_F(StreamTest, WaitsForEveryReceipt) {
  const MadeUpPublication made = Made("t");
  EXPECT_EQ(stream_.Seal(made.place).status().code(), Code::kNotFound);
  ASSERT_TRUE(stream_.PutPayload(made.place, made.payloads[0]).ok());
  EXPECT_EQ(stream_.PutReceipt(made.receipts[1]).code(), Code::kRefused);  // its payload is not there
  ASSERT_TRUE(stream_.PutReceipt(made.receipts[0]).ok());
  EXPECT_THAT(stream_.Seal(made.place).status().message(), HasSubstr("rank 1 of 2 has not delivered"));
  Receipt other = made.receipts[0];
  other.base_part.lane0 ^= 1;
  EXPECT_EQ(stream_.PutReceipt(other).code(), Code::kExists);
}

TEST_F(StreamTest, RefusesRanksThatDoNotBelongTogether) {
  MadeUpPublication made = Made("codec");
  made.receipts[1].codec = CodecId::kZstd;
  EXPECT_THAT(SealError(made).message(), HasSubstr("another codec"));
  made = Made("parts");
  made.receipts[1].parts_sha256[0] ^= 1;
  EXPECT_THAT(SealError(made).message(), HasSubstr("other parts than its receipt says"));
  made = Made("digests");
  made.receipts[0].has_digests = false;
  made.receipts[0].owner.change = {};
  EXPECT_THAT(SealError(made).message(), HasSubstr("without digests"));
  made = Made("count");
  made.receipts[1].owner_count = 3;
  EXPECT_THAT(SealError(made).message(), HasSubstr("there are 3 ranks"));
}

TEST_F(StreamTest, RefusesABaseThatIsNotTheParent) {
  MadeUpPublication made = Made("t");
  made.receipts[0].base_part.lane1 ^= 1;
  EXPECT_THAT(SealError(made).message(), HasSubstr("what the ranks started from is not version 0"));
}

TEST_F(StreamTest, RefusesPartsThatAreOwnedTwiceOrByNobody) {
  const auto halves = PlanOwners(stream_.layout(), 2, Split::kColumn).value();
  MadeUpPublication made = Made("twice");
  made.payloads[1] = testing_payload::MadeUpPayload(stream_.layout(), halves[0], {CodecId::kSparse, 1, 2}, 5);
  const Payload& payload = made.payloads[1];
  made.receipts[1].owner = {PayloadFileName(1, payload.sha256),
                            payload.byte_count,
                            payload.head.size(),
                            payload.change_count,
                            payload.sha256,
                            payload.head_sha256,
                            payload.change};
  made.receipts[1].parts_sha256 = made.receipts[0].parts_sha256;
  const Status status = SealError(made);
  EXPECT_EQ(status.code(), Code::kRefused);
  EXPECT_THAT(status.message(), HasSubstr("a.bias"));
}

TEST_F(StreamTest, ComparesWhatSeveralRanksHold) {
  const Sha256Digest part{1};
  MadeUpPublication made = Made("equal");
  made.receipts[0].witnesses = {{0, part, {5, 6}}};
  made.receipts[1].witnesses = {{0, part, {5, 6}}};
  EXPECT_TRUE(SealError(made).ok());
  made.place.publication_id = "differs";
  for (Receipt& receipt : made.receipts) receipt.place = made.place;
  made.receipts[1].witnesses[0].after.lane0 = 7;
  EXPECT_THAT(SealError(made).message(), HasSubstr("a part of rank 0's: rank 1 holds other values than rank 0"));
  made.place.publication_id = "alone";
  for (Receipt& receipt : made.receipts) receipt.place = made.place;
  made.receipts[0].witnesses.clear();
  EXPECT_THAT(SealError(made).message(), HasSubstr("says that rank 0 publishes a copy, which that one does not know of"));
  made.place.publication_id = "unseen";
  for (Receipt& receipt : made.receipts) receipt.place = made.place;
  made.receipts[0].witnesses = {{0, part, {5, 6}}};
  made.receipts[1].witnesses.clear();
  EXPECT_THAT(SealError(made).message(), HasSubstr("rank 0 says that others hold copies, but none bears witness"));
}

TEST_F(StreamTest, CommitsOnlyWhatIsThereWhole) {
  const MadeUpPublication made = Made("t");
  ASSERT_TRUE(Deliver(stream_, made).ok());
  const VersionRecord record = CommitRecord(stream_.Seal(made.place).value());
  VersionRecord other = record;
  other.manifest_sha256[0] ^= 1;
  EXPECT_EQ(stream_.Decide(other).status().code(), Code::kRefused);
  other = record;
  other.publication_id = "u";
  EXPECT_THAT(stream_.Decide(other).status().message(), HasSubstr("not sealed"));
  ASSERT_TRUE(store_.Remove(PayloadKey("run-1", made.place, made.receipts[0].owner)).ok());
  EXPECT_THAT(stream_.Decide(record).status().message(), HasSubstr("is not there"));
  EXPECT_FALSE(stream_.Record(1)->has_value());
}

TEST_F(StreamTest, ContinuesFromAVersionInTheWindowOnly) {
  StreamInfo info = SmallStreamInfo();
  info.stream_id = "short";
  info.resume_window = 2;
  Stream stream = CreateStream(store_, info);
  PublishChain(stream, 3);
  EXPECT_THAT(Publish(stream, {1, 4, "late"}, 9).status().message(), HasSubstr("too old to continue from"));
  EXPECT_TRUE(Publish(stream, {2, 4, "back"}, 9)->committed());
  for (uint64_t version = 5; version < 10; ++version) ASSERT_TRUE(stream.Decide(AbortRecord(version)).ok());
  EXPECT_TRUE(Publish(stream, {4, 10, "on"}, 10)->committed());  // from the newest, however many were aborted
}

TEST_F(StreamTest, SealsForADecidedVersionOnlyItsContent) {
  ASSERT_TRUE(Publish(stream_, {0, 1, "a"}, 1)->committed());
  EXPECT_TRUE(SealError(Made("same", 1)).ok());
  EXPECT_THAT(SealError(Made("other", 2)).message(), HasSubstr("version 1 was decided otherwise"));
}

TEST(StreamInFolder, Works) {
  const TemporaryFolder folder;
  auto store = OpenFolderStore(PosixFileOps(), folder / "store").value();
  Stream stream = CreateStream(*store);
  PublishChain(stream, 1);
  EXPECT_EQ(Stream::Open(*store, "")->Newest().value(), 1U);
  EXPECT_EQ(Stream::Open(*store, "")->Route(0, 1)->size(), 1U);
}

}  // namespace
}  // namespace xorbit
