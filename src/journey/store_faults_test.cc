// What a killed publisher leaves and what a disk damages: neither may block the next publish for good, nor make anybody take
// other bytes for a version's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/temporary_folder.h"
#include "base/testing/forwarding_file_ops.h"
#include "base/testing/recording_file_ops.h"
#include "base/testing/seed.h"
#include "journey/store_journey.h"
#include "tensor/checkpoint_writer.h"
#include "tensor/random_model.h"
#include "transport/folder_store.h"

namespace xorbit {
namespace {

using testing::HasSubstr;
using testing::Not;

// Fast: what a power cut leaves is folder_store_test's subject.
class WithoutSyncs final : public ForwardingFileOps {
 public:
  Status Sync(const UniqueFd& /*fd*/) override { return {}; }
  Status SyncFolder(const fs::path& /*folder*/) override { return {}; }
};

class StoreFaultsTest : public testing::Test {
 protected:
  static constexpr uint64_t kStates = 6;

  StoreFaultsTest() : layout_(RandomLayout(random_, 5, 600)), weights_(random_, layout_) {
    runtime_ = {.backend = backend_.get(), .file_ops = &ops_, .threads = 2};
    // What the test freezes never changes.
    std::vector<TensorSpec> thawed = layout_.tensors();
    for (TensorSpec& tensor : thawed) tensor.frozen = false;
    layout_ = Layout::Make(std::move(thawed), layout_.groups()).value();
    frozen_ = layout_.tensors()[0].name;
    std::vector<TensorSpec> marked = layout_.tensors();
    marked[0].frozen = true;
    const Layout with_marks = Layout::Make(std::move(marked), layout_.groups()).value();
    for (uint64_t state = 0; state < kStates; ++state) {
      EXPECT_TRUE(WriteShardedCheckpoint(ops_, State(state), layout_, FillFrom(weights_.bytes()), 2'000).ok());
      EXPECT_TRUE(WriteWholeFile(ops_, State(state) / "config.json", AsBytes(std::to_string(state))).ok());
      weights_.Mutate(random_, with_marks, 40);
    }
  }

  fs::path State(uint64_t state) const { return folder_ / ("state-" + std::to_string(state)); }
  std::unique_ptr<ObjectStore> Open(const fs::path& store) { return OpenFolderStore(ops_, store).value(); }

  PublishRequest Request(uint64_t state) const {
    PublishRequest request;
    request.checkpoint = State(state);
    return request;
  }

  void Overwrite(const fs::path& path, const Buffer& bytes) {
    fs::remove(path);
    ASSERT_TRUE(WriteWholeFile(ops_, path, bytes).ok());
  }

  bool AreEqual(const fs::path& checkpoint, uint64_t state) {
    const Checkpoint got = Checkpoint::Open(checkpoint).value();
    const Checkpoint wanted = Checkpoint::Open(State(state)).value();
    return std::ranges::equal(got.files(), wanted.files(), [](const CheckpointFile& a, const CheckpointFile& b) {
      return std::ranges::equal(a.map.bytes(), b.map.bytes());
    });
  }

  const uint64_t seed_ = TestSeed();
  Random random_{seed_};
  WithoutSyncs ops_;
  TemporaryFolder folder_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  Runtime runtime_;
  Layout layout_;
  RandomTensors weights_;
  std::string frozen_;
};

// The first publish of all, killed at every change of the disk; then one of the same weights beside other files, one of other
// weights, or one that freezes other tensors.
TEST_F(StoreFaultsTest, AKilledFirstPublishBlocksNobody) {
  fs::create_directory(folder_ / "renamed");
  for (const auto& entry : fs::directory_iterator(State(0)))
    fs::copy(entry.path(), folder_ / "renamed" / entry.path().filename());
  ASSERT_TRUE(WriteWholeFile(ops_, folder_ / "renamed" / "tokenizer.json", AsBytes("another")).ok());
  uint64_t interrupted_count = 0;
  for (uint64_t call = 0;; ++call) {
    const fs::path root = folder_ / ("killed-" + std::to_string(call));
    fs::create_directory(root);
    RecordingFileOps killed(root);
    killed.FailCalls(call, RecordingFileOps::kNever);
    if (PublishCheckpoint(runtime_, *OpenFolderStore(killed, root / "store").value(), Request(0)).ok()) break;
    ++interrupted_count;
    PublishRequest next = Request(call % 3 == 0 ? 1 : 0);
    if (call % 3 == 1) next.checkpoint = folder_ / "renamed";
    if (call % 3 == 2) next.delta.rules.frozen = {frozen_};
    const auto store = Open(root / "store");
    auto published = PublishCheckpoint(runtime_, *store, next);
    const bool is_begun = fs::exists(root / "store/main/stream.json");
    if (call % 3 == 2 && !published.ok() && is_begun) {
      EXPECT_THAT(published.status().message(), HasSubstr("publish without --frozen")) << call;
      next.delta.rules.frozen.clear();
      published = PublishCheckpoint(runtime_, *store, next);
    }
    ASSERT_TRUE(published.ok()) << "killed at call " << call << ": " << published.status().message();
    const fs::path sampler = root / "sampler";
    const auto pulled = PullCheckpoint(runtime_, *store, "", sampler, published->version);
    ASSERT_TRUE(pulled.ok()) << call << ": " << pulled.status().message();
    EXPECT_TRUE(AreEqual(sampler, call % 3 == 0 ? 1 : 0)) << call;
    fs::remove_all(root);
  }
  EXPECT_GE(interrupted_count, 30U);
}

// One bit of every object of a store, its layout's marks among them: whoever pulls gets the version's bytes or an error of one
// line, and so does, of what is published on top, whoever pulls when the object is whole again.
TEST_F(StoreFaultsTest, NoFlippedBitIsBelieved) {
  const fs::path whole = folder_ / "store";
  for (uint64_t version = 0; version + 1 < kStates; ++version) {
    PublishRequest request = Request(version);
    request.with_anchor = version == 2;
    if (version == 0) request.delta.rules.frozen = {frozen_};
    request.delta.owner_count = 2;
    ASSERT_TRUE(PublishCheckpoint(runtime_, *Open(whole), request).ok());
  }
  std::vector<fs::path> objects;
  for (const auto& entry : fs::recursive_directory_iterator(whole)) {
    if (entry.is_regular_file() && fs::file_size(entry.path()) > 0) objects.push_back(fs::relative(entry.path(), whole));
  }
  uint64_t refused = 0;
  uint64_t right = 0;
  const fs::path store_folder = folder_ / "damaged";
  const fs::path sampler = folder_ / "sampler";
  const auto expect_right_or_refused = [&](uint64_t version, const std::string& where) {
    const auto pulled = PullCheckpoint(runtime_, *Open(store_folder), "", sampler, version);
    ++(pulled.ok() ? right : refused);
    if (pulled.ok()) {
      EXPECT_TRUE(AreEqual(sampler, version)) << where;
    } else {
      EXPECT_THAT(pulled.status().message(), Not(HasSubstr("\n"))) << where;
    }
    fs::remove_all(sampler);
    return pulled.ok();
  };
  for (const fs::path& object : objects) {
    fs::copy(whole, store_folder, fs::copy_options::recursive);
    const fs::path path = store_folder / object;
    const Buffer bytes = ReadWholeFile(path, UINT64_MAX).value();
    Buffer damaged = bytes;
    const uint64_t bit = random_() % (8 * bytes.size());
    damaged[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
    Overwrite(path, damaged);
    const std::string where = object.string() + ", bit " + std::to_string(bit);
    fs::copy(State(0), sampler, fs::copy_options::recursive);
    expect_right_or_refused(4, where);
    expect_right_or_refused(3, where);
    PublishRequest request = Request(5);
    request.base = State(3);
    const auto published = PublishCheckpoint(runtime_, *Open(store_folder), request);
    if (object.filename() != "head.json") Overwrite(path, bytes);
    EXPECT_EQ(Stream::Open(*Open(store_folder), "")->Newest().value(), published.ok() ? 5U : 4U) << where;
    EXPECT_EQ(expect_right_or_refused(5, where), published.ok()) << where;
    EXPECT_TRUE(expect_right_or_refused(4, where)) << where;
    fs::remove_all(store_folder);
  }
  EXPECT_GE(objects.size(), 40U);
  EXPECT_GE(refused, 5U);
  EXPECT_GE(right, objects.size());
}

}  // namespace
}  // namespace xorbit
