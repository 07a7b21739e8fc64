// The whole journey on random checkpoints: there and back, folded, from every way of cutting, and everything that must be
// refused.
#include "journey/journey.h"

#include <gtest/gtest.h>

#include <fstream>

#include "backend/cpu/cpu_backend.h"
#include "base/temporary_folder.h"
#include "tensor/random_model.h"

namespace xorbit {
namespace {

void WriteFile(const fs::path& path, ConstBytes bytes) { ASSERT_TRUE(WriteWholeFile(PosixFileOps(), path, bytes).ok()); }

// One file with the tensors [begin, end) of the layout.
void WriteShard(const fs::path& path, const Layout& layout, const RandomTensors& tensors, size_t begin, size_t end) {
  SafetensorsHeaderSpec spec;
  for (size_t i = begin; i < end; ++i) {
    const TensorSpec& tensor = layout.tensors()[i];
    spec.entries.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
  }
  Buffer bytes = BuildSafetensorsHeader(spec).value();
  const auto all = tensors.bytes();
  for (size_t i = begin; i < end; ++i) AppendBytes(bytes, all[i]);
  WriteFile(path, bytes);
}

// A folder checkpoint of one or two shards, with a file beside them.
void WriteCheckpoint(const fs::path& folder, const Layout& layout, const RandomTensors& tensors, bool sharded) {
  fs::create_directory(folder);
  const size_t count = layout.tensors().size();
  const size_t middle = sharded ? count / 2 : count;
  WriteShard(folder / "model-00001.safetensors", layout, tensors, 0, middle);
  if (middle < count) WriteShard(folder / "model-00002.safetensors", layout, tensors, middle, count);
  WriteFile(folder / "config.json", AsBytes("{}"));
}

Buffer Contents(const fs::path& path) { return ReadWholeFile(path, UINT64_MAX).value(); }

// Names and contents of everything in a folder, sub-folders included, but for .xorbit.
std::map<std::string, Buffer> TreeOf(const fs::path& folder) {
  std::map<std::string, Buffer> tree;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder).string();
    if (entry.is_regular_file() && !name.starts_with(".xorbit")) tree[name] = Contents(entry.path());
  }
  return tree;
}

class JourneyTest : public testing::Test {
 protected:
  JourneyTest() : backend_(MakeCpuBackend()) {
    runtime_ = {.backend = backend_.get(), .file_ops = &PosixFileOps(), .threads = 2};
  }

  // Checkpoints state-0 ... state-N of a random run, and the deltas delta-1 ... delta-N between them.
  void MakeRun(const TemporaryFolder& folder, uint64_t seed, size_t step_count) {
    Random random(seed);
    do {
      layout_ = RandomLayout(random, 12, seed % 5 == 0 ? 150'000 : 4'000);
    } while (layout_.total_bytes() < 64);
    // Frozen marks are not part of a safetensors file; a checkpoint read back has none.
    std::vector<TensorSpec> tensors = layout_.tensors();
    for (TensorSpec& tensor : tensors) tensor.frozen = false;
    layout_ = Layout::Make(std::move(tensors)).value();
    RandomTensors state(random, layout_);
    const bool sharded = random() % 2 == 0;
    for (size_t i = 0; i <= step_count; ++i) {
      if (i > 0) state.Mutate(random, layout_, Between(random, 1, 400));
      WriteCheckpoint(folder / ("state-" + std::to_string(i)), layout_, state, sharded);
    }
  }

  DeltaOptions OptionsFor(uint64_t seed) const {
    DeltaOptions options;
    const Split splits[] = {Split::kWhole, Split::kRange, Split::kColumn};
    options.owner_count = static_cast<uint32_t>(seed % 4 + 1);
    options.split = splits[seed % 3];
    options.codec = AllCodecs()[seed % AllCodecs().size()]->id();
    return options;
  }

  void MakeStep(const TemporaryFolder& folder, size_t from, size_t to, const std::string& name, const DeltaOptions& options) {
    const Checkpoint a = Checkpoint::Open(folder / ("state-" + std::to_string(from))).value();
    const Checkpoint b = Checkpoint::Open(folder / ("state-" + std::to_string(to))).value();
    const auto summary = MakeDelta(runtime_, a, b, folder / name, options);
    ASSERT_TRUE(summary.ok()) << summary.status().message();
  }

  std::unique_ptr<Backend> backend_;
  Runtime runtime_;
  Layout layout_;
};

TEST_F(JourneyTest, GoesThereAndBackInPlaceAndAsACopy) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TemporaryFolder folder;
    MakeRun(folder, seed, 1);
    MakeStep(folder, 0, 1, "delta", OptionsFor(seed));
    const auto copied = ApplyToCopy(runtime_, folder / "state-0", {folder / "delta"}, folder / "copy", Direction::kForward);
    ASSERT_TRUE(copied.ok()) << copied.status().message();
    EXPECT_EQ(TreeOf(folder / "copy"), TreeOf(folder / "state-1"));
    EXPECT_FALSE(fs::exists(folder / "copy" / ".xorbit"));

    const auto before = TreeOf(folder / "state-0");
    const auto forward = ApplyInPlace(runtime_, folder / "state-0", {folder / "delta"}, Direction::kForward);
    ASSERT_TRUE(forward.ok()) << forward.status().message();
    EXPECT_EQ(TreeOf(folder / "state-0"), TreeOf(folder / "state-1"));
    const auto again = ApplyInPlace(runtime_, folder / "state-0", {folder / "delta"}, Direction::kForward);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_TRUE(again->already_there);
    EXPECT_EQ(TreeOf(folder / "state-0"), TreeOf(folder / "state-1"));
    const auto back = ApplyInPlace(runtime_, folder / "state-0", {folder / "delta"}, Direction::kInverse);
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(TreeOf(folder / "state-0"), before);
  }
}

TEST_F(JourneyTest, FoldEqualsTheDirectDiffByteForByte) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TemporaryFolder folder;
    MakeRun(folder, seed, 3);
    const DeltaOptions options = OptionsFor(seed);
    std::vector<fs::path> chain;
    for (size_t i = 1; i <= 3; ++i) {
      DeltaOptions step = options;
      if (i > 1) step = OptionsFor(seed + i);  // later deltas may be cut and coded otherwise
      MakeStep(folder, i - 1, i, "delta-" + std::to_string(i), step);
      chain.push_back(folder / ("delta-" + std::to_string(i)));
    }
    MakeStep(folder, 0, 3, "direct", options);
    for (const char* state : {"state-0", "state-3"}) {
      const Checkpoint checkpoint = Checkpoint::Open(folder / state).value();
      const std::string name = std::string("folded-with-") + state;
      const auto folded = FoldDeltas(runtime_, chain, folder / name, &checkpoint, {});
      ASSERT_TRUE(folded.ok()) << folded.status().message();
      EXPECT_EQ(TreeOf(folder / name), TreeOf(folder / "direct"));
    }
    const auto blind = FoldDeltas(runtime_, chain, folder / "blind", nullptr, {});
    ASSERT_TRUE(blind.ok()) << blind.status().message();
    for (const auto& way : {std::vector<fs::path>{folder / "blind"}, chain}) {
      const auto applied = ApplyToCopy(runtime_, folder / "state-0", way, folder / "copy", Direction::kForward);
      ASSERT_TRUE(applied.ok()) << applied.status().message();
      EXPECT_EQ(TreeOf(folder / "copy"), TreeOf(folder / "state-3"));
      fs::remove_all(folder / "copy");
    }
    // From a state in between, and all the way back.
    ASSERT_TRUE(ApplyInPlace(runtime_, folder / "state-1", chain, Direction::kForward).ok());
    EXPECT_EQ(TreeOf(folder / "state-1"), TreeOf(folder / "state-3"));
    ASSERT_TRUE(ApplyInPlace(runtime_, folder / "state-1", chain, Direction::kInverse).ok());
    EXPECT_EQ(TreeOf(folder / "state-1"), TreeOf(folder / "state-0"));
    const Checkpoint middle = Checkpoint::Open(folder / "state-2").value();
    EXPECT_EQ(FoldDeltas(runtime_, chain, folder / "never", &middle, {}).status().code(), Code::kRefused);
    EXPECT_EQ(ApplyInPlace(runtime_, folder / "state-0", {chain[0], chain[2]}, Direction::kForward).status().code(),
              Code::kRefused);
  }
}

TEST_F(JourneyTest, SaysWhereACheckpointStands) {
  const TemporaryFolder folder;
  MakeRun(folder, 7, 2);
  MakeStep(folder, 0, 1, "delta", {});
  const std::vector<Delta> chain = OpenChain(runtime_, {folder / "delta"}).value();
  EXPECT_EQ(IdentifyState(runtime_, folder / "state-0", chain)->chain_index, 0U);
  EXPECT_EQ(IdentifyState(runtime_, folder / "state-1", chain)->chain_index, 1U);
  EXPECT_EQ(IdentifyState(runtime_, folder / "state-1", chain)->position, ChainPosition::kOnChain);
  EXPECT_EQ(IdentifyState(runtime_, folder / "state-2", chain)->position, ChainPosition::kNotOnChain);
}

TEST_F(JourneyTest, RefusesAWrongBaseAnExistingTargetAndAChangedFrozenTensor) {
  const TemporaryFolder folder;
  MakeRun(folder, 11, 2);
  MakeStep(folder, 0, 1, "delta", {});
  const auto before = TreeOf(folder / "state-2");
  EXPECT_EQ(ApplyInPlace(runtime_, folder / "state-2", {folder / "delta"}, Direction::kForward).status().code(),
            Code::kRefused);
  EXPECT_EQ(TreeOf(folder / "state-2"), before);
  EXPECT_EQ(
      ApplyToCopy(runtime_, folder / "state-0", {folder / "delta"}, folder / "state-1", Direction::kForward).status().code(),
      Code::kExists);
  const Checkpoint a = Checkpoint::Open(folder / "state-0").value();
  const Checkpoint b = Checkpoint::Open(folder / "state-1").value();
  EXPECT_EQ(MakeDelta(runtime_, a, b, folder / "delta", {}).status().code(), Code::kExists);
  DeltaOptions frozen;
  frozen.rules.frozen = {"*"};
  EXPECT_EQ(MakeDelta(runtime_, a, b, folder / "frozen", frozen).status().code(), Code::kRefused);
  frozen.rules.frozen = {"no such tensor"};
  EXPECT_EQ(MakeDelta(runtime_, a, b, folder / "frozen", frozen).status().code(), Code::kUsage);
  EXPECT_FALSE(fs::exists(folder / "frozen"));
}

TEST_F(JourneyTest, PresenceGroupsCutSegments) {
  const TemporaryFolder folder;
  MakeRun(folder, 13, 1);
  DeltaOptions options;
  options.rules.groups = {{"even", "*[02468].weight"}};
  MakeStep(folder, 0, 1, "delta", options);
  const std::vector<Delta> chain = OpenChain(runtime_, {folder / "delta"}).value();
  for (const PayloadSegment& segment : chain.front().payloads.front().segments) {
    for (const Part& part : segment.map.parts()) {
      EXPECT_EQ(chain.front().layout.tensors()[part.tensor_index].group, segment.map.group());
    }
  }
  ASSERT_TRUE(ApplyToCopy(runtime_, folder / "state-0", {folder / "delta"}, folder / "copy", Direction::kForward).ok());
  EXPECT_EQ(TreeOf(folder / "copy"), TreeOf(folder / "state-1"));
}

TEST_F(JourneyTest, EveryFlippedByteOfADeltaIsRefused) {
  const TemporaryFolder folder;
  MakeRun(folder, 3, 1);
  MakeStep(folder, 0, 1, "delta", {});
  const auto untouched = TreeOf(folder / "state-0");
  Random random(1);
  for (const auto& entry : fs::recursive_directory_iterator(folder / "delta")) {
    if (!entry.is_regular_file()) continue;
    const Buffer good = Contents(entry.path());
    for (int flip = 0; flip < 60; ++flip) {
      Buffer bad = good;
      const uint64_t at = Between(random, 0, bad.size() - 1);
      bad[at] ^= static_cast<uint8_t>(1 << Between(random, 0, 7));
      std::ofstream(entry.path(), std::ios::binary | std::ios::trunc)
          .write(reinterpret_cast<const char*>(bad.data()), static_cast<std::streamsize>(bad.size()));
      const auto applied = ApplyToCopy(runtime_, folder / "state-0", {folder / "delta"}, folder / "copy", Direction::kForward);
      // A change of JSON white space, or of a hand-made delta's optional words, may go unnoticed; then the result is right.
      if (applied.ok()) {
        EXPECT_EQ(TreeOf(folder / "copy"), TreeOf(folder / "state-1")) << entry.path() << " byte " << at;
        EXPECT_EQ(entry.path().extension(), ".json");
        fs::remove_all(folder / "copy");
      }
      EXPECT_FALSE(fs::exists(folder / "copy"));
    }
    std::ofstream(entry.path(), std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(good.data()), static_cast<std::streamsize>(good.size()));
  }
  EXPECT_EQ(TreeOf(folder / "state-0"), untouched);
  EXPECT_TRUE(ApplyToCopy(runtime_, folder / "state-0", {folder / "delta"}, folder / "copy", Direction::kForward).ok());
}

// The newest folder fits the first state as well as the one before its own.
TEST_F(JourneyTest, AChainOfMilesFoldersBeginsWhereEveryTensorSays) {
  const TemporaryFolder folder;
  Random random(11);
  layout_ = Layout::Make({{"a", Dtype::kBF16, {64}}, {"b", Dtype::kBF16, {64}}}).value();
  RandomTensors state(random, layout_);
  WriteCheckpoint(folder / "state-0", layout_, state, true);
  std::vector<fs::path> chain;
  for (const size_t step : {0, 1}) {
    state.mutable_bytes()[step][0] ^= 1;
    const fs::path from = folder / ("state-" + std::to_string(step));
    const fs::path to = folder / ("state-" + std::to_string(step + 1));
    WriteCheckpoint(to, layout_, state, true);
    chain.push_back(folder / ("weight-" + std::to_string(step)));
    ASSERT_TRUE(
        MakeMilesDelta(runtime_, Checkpoint::Open(from).value(), Checkpoint::Open(to).value(), chain.back(), {}, {}).ok());
  }
  const auto applied = ApplyInPlace(runtime_, folder / "state-0", chain, Direction::kForward);
  ASSERT_TRUE(applied.ok()) << applied.status().message();
  EXPECT_EQ(applied->delta_count, 2U);
  EXPECT_EQ(TreeOf(folder / "state-0"), TreeOf(folder / "state-2"));
}

}  // namespace
}  // namespace xorbit
