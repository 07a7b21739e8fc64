// What Prepare does with tied names, derived tensors, kept copies and presence groups that a receiver lacks, and with payloads
// that lie.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/update_test_util.h"
#include "base/testing/seed.h"

namespace xorbit {
namespace {

enum : uint32_t { kEmbed, kHead, kScale, kDraft, kTensorCount };  // in name order

Layout TiedLayout() {
  return Layout::Make({{.name = "a.embed", .dtype = Dtype::kBF16, .shape = {64, 32}},
                       {.name = "b.head", .dtype = Dtype::kBF16, .shape = {64, 32}},
                       {.name = "c.scale", .dtype = Dtype::kF32, .shape = {500}},
                       {.name = "d.draft", .dtype = Dtype::kBF16, .shape = {700}, .group = 1}},
                      {"model", "draft"})
      .value();
}

class PrepareBindingsTest : public testing::Test {
 protected:
  PrepareBindingsTest() : random_(TestSeed()), layout_(TiedLayout()), before_(random_, layout_), after_(random_, layout_) {
    Tie(&before_);
    after_.CopyFrom(before_);
    after_.Mutate(random_, layout_, 100);
    Tie(&after_);
    PieceClass whole{.granule_bits = 16, .digit_count = 1, .digits = {LiveDigit{64 * 32, 1, 1}}};
    spec_.classes = {whole};
    spec_.regions = {{"embed", 64 * 32 * 2}};
    spec_.pieces = {{.tensor_index = kEmbed}};
    spec_.aliases = {{.tensor_index = kHead, .of_tensor_index = kEmbed}};
    spec_.derived = {{.tensor_index = kEmbed, .callback = "logits"}, {.tensor_index = kScale, .callback = "scales"}};
    spec_.absent_groups = {1};
  }

  // The second name gets the first one's bytes.
  static void Tie(RandomTensors* tensors) {
    const auto bytes = tensors->mutable_bytes();
    std::ranges::copy(bytes[kEmbed], bytes[kHead].begin());
  }

  EncodedUpdate Encode() const {
    return {*backend_, layout_, PlanOwners(layout_, 2, Split::kRange).value(), before_, after_, CodecId::kSparse};
  }

  Random random_;
  Layout layout_;
  RandomTensors before_;
  RandomTensors after_;
  LiveMapSpec spec_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
};

TEST_F(PrepareBindingsTest, WritesTiedWeightsOnceAndLeavesAbsentGroupsOut) {
  RandomLiveMemory live(random_, layout_, LiveMap::Make(layout_, spec_).value());
  live.Fill(after_.bytes());
  const Buffer there = live.Snapshot();
  live.Fill(before_.bytes());
  const EncodedUpdate update = Encode();
  const auto prepared = backend_->Prepare(layout_, update.payloads(), live.memory(), {});
  ASSERT_TRUE(prepared.ok()) << prepared.status().message();
  EXPECT_EQ((*prepared)->report().change_count, update.change_count());
  EXPECT_EQ((*prepared)->report().derived, (std::vector<uint32_t>{0, 1}));
  ASSERT_TRUE((*prepared)->Apply().ok());
  EXPECT_EQ(live.Snapshot(), there);
}

TEST_F(PrepareBindingsTest, RefusesToTearTiedWeightsApart) {
  RandomLiveMemory live(random_, layout_, LiveMap::Make(layout_, spec_).value());
  live.Fill(before_.bytes());
  const Buffer here = live.Snapshot();
  after_.mutable_bytes()[kHead][77] ^= 1;
  const EncodedUpdate update = Encode();
  const auto prepared = backend_->Prepare(layout_, update.payloads(), live.memory(), {});
  ASSERT_FALSE(prepared.ok());
  EXPECT_EQ(prepared.status().code(), Code::kRefused);
  EXPECT_EQ(prepared.status().message(),
            "tensors 'b.head' and 'a.embed' share their weights, but this delta changes them differently: bind them apart");
  EXPECT_EQ(live.Snapshot(), here);
}

TEST_F(PrepareBindingsTest, RefusesMemoryThatIsNotTheMaps) {
  RandomLiveMemory live(random_, layout_, LiveMap::Make(layout_, spec_).value());
  live.Fill(before_.bytes());
  const EncodedUpdate update = Encode();
  const std::vector<MutableBytes> regions = {live.memory().regions[0].first(10)};
  LiveMemory memory = live.memory();
  memory.regions = regions;
  EXPECT_EQ(backend_->Prepare(layout_, update.payloads(), memory, {}).status().message(),
            "live region 'embed' has 10 bytes where the map has 4096");
  memory = live.memory();
  memory.kept = {};
  EXPECT_EQ(backend_->Prepare(layout_, update.payloads(), memory, {}).status().code(), Code::kUsage);
}

TEST_F(PrepareBindingsTest, RefusesARankThatDoesNotSayThatItHoldsAPartOnly) {
  spec_.classes.front().digits[0].count = 64 * 16;
  RandomLiveMemory live(random_, layout_, LiveMap::Make(layout_, spec_).value());
  live.Fill(before_.bytes());
  const EncodedUpdate update = Encode();
  EXPECT_EQ(backend_->Prepare(layout_, update.payloads(), live.memory(), {}).status().code(), Code::kRefused);
  EXPECT_TRUE(backend_->Prepare(layout_, update.payloads(), live.memory(), {.partial = true}).ok());
}

TEST_F(PrepareBindingsTest, RefusesCopiesThatDiffer) {
  const uint64_t units = 64 * 32;
  spec_.regions.push_back({"copy", units * 2});
  spec_.pieces.push_back({.tensor_index = kEmbed, .region_index = 1, .counted = false});
  RandomLiveMemory live(random_, layout_, LiveMap::Make(layout_, spec_).value());
  live.Fill(before_.bytes());
  const EncodedUpdate update = Encode();
  ASSERT_TRUE(backend_->Prepare(layout_, update.payloads(), live.memory(), {}).ok());
  const auto [from, to] = std::ranges::mismatch(before_.bytes()[kEmbed], after_.bytes()[kEmbed]);
  live.memory().regions[1][static_cast<size_t>(from - before_.bytes()[kEmbed].begin())] ^= 0x80;
  const auto prepared = backend_->Prepare(layout_, update.payloads(), live.memory(), {});
  ASSERT_FALSE(prepared.ok());
  EXPECT_EQ(prepared.status().code(), Code::kRefused);
  EXPECT_EQ(prepared.status().message(),
            "live copies of one tensor differ from each other: tensor 'a.embed' at or after element " +
                std::to_string((from - before_.bytes()[kEmbed].begin()) / 2));
}

TEST_F(PrepareBindingsTest, LeavesACastAloneThatSomebodyChanged) {
  spec_.aliases.clear();
  spec_.pieces = {{.tensor_index = kHead}};
  spec_.regions.push_back({"embed as F32", 64 * 32 * 4});
  spec_.shadows = {{.cast = Cast::kBf16ToF32, .piece = {.tensor_index = kEmbed, .region_index = 1}}};
  RandomLiveMemory live(random_, layout_, LiveMap::Make(layout_, spec_).value());
  live.Fill(after_.bytes());
  const Buffer there = live.Snapshot();
  live.Fill(before_.bytes());
  const EncodedUpdate update = Encode();
  const auto [from, to] = std::ranges::mismatch(before_.bytes()[kEmbed], after_.bytes()[kEmbed]);
  uint8_t& victim = live.memory().regions[1][static_cast<size_t>(from - before_.bytes()[kEmbed].begin()) / 2 * 4];
  for (const PrepareOptions& options : {PrepareOptions{.localise_budget_bytes = 0}, PrepareOptions{.keep_undo_log = true},
                                        PrepareOptions{.localise_budget_bytes = 1 << 20}}) {
    const auto prepared = backend_->Prepare(layout_, update.payloads(), live.memory(), options);
    ASSERT_TRUE(prepared.ok()) << prepared.status().message();
    victim ^= 1;  // the low half of a cast is zero, whatever the element
    const Buffer foreign = live.Snapshot();
    EXPECT_EQ(prepared.value()->Apply().code(), Code::kRefused);
    EXPECT_EQ(live.Snapshot(), foreign);
    victim ^= 1;
    EXPECT_TRUE(prepared.value()->Apply().ok());
    EXPECT_EQ(live.Snapshot(), there);
    EXPECT_TRUE(prepared.value()->Undo().ok());
  }
}

// A damaged body either does not decode or does not fit: live memory stays as it is, and nothing is prepared.
TEST_F(PrepareBindingsTest, RefusesDamagedPayloads) {
  spec_.absent_groups.clear();
  const LiveMap map = CanonicalMap(layout_);
  const std::vector<MutableBytes> live = before_.mutable_bytes();
  const RandomTensors untouched = before_;
  const EncodedUpdate update = Encode();
  for (int round = 0; round < 300; ++round) {
    const size_t owner = Between(random_, 0, update.payloads().size() - 1);
    Buffer file = update.file(owner);
    const uint64_t body_bytes = update.payloads()[owner].body.size();
    file[file.size() - Between(random_, 1, body_bytes)] ^= static_cast<uint8_t>(1 << Between(random_, 0, 7));
    const auto view = ParsePayload(layout_, file);
    if (!view.ok()) continue;
    const auto prepared = backend_->Prepare(layout_, {&*view, 1}, {&map, live, {}}, {});
    ASSERT_FALSE(prepared.ok()) << "round " << round;
    for (size_t i = 0; i < live.size(); ++i) ASSERT_TRUE(std::ranges::equal(live[i], untouched.bytes()[i]));
  }
}

}  // namespace
}  // namespace xorbit
