// The other side of the interchange: the Python tools (bench/rivals/miles_tools.py) read what we write, and we read what they
// write.
//
// They need numpy, zstandard, xxhash and safetensors: XORBIT_RIVALS_PYTHON names an interpreter that has them, python3
// otherwise. Without them these tests are skipped. XORBIT_TEST_DATA may name a folder that holds rl-run, the packed checkpoints
// of a real run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "base/testing/seed.h"
#include "interchange/miles_test_folder.h"
#include "tensor/checkpoint.h"
#include "tensor/checkpoint_writer.h"

namespace xorbit {
namespace {

std::string Python() {
  const char* interpreter = std::getenv("XORBIT_RIVALS_PYTHON");
  return interpreter != nullptr ? interpreter : "python3";
}

int RunShell(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()); }

int RunTool(const std::string& arguments) {
  return RunShell(Python() + " " XORBIT_SOURCE_FOLDER "/bench/rivals/miles_tools.py " + arguments);
}

bool SameTensors(const Checkpoint& a, const Checkpoint& b) {
  const std::vector<ConstBytes> all_a = a.all_tensor_bytes();
  const std::vector<ConstBytes> all_b = b.all_tensor_bytes();
  return std::equal(all_a.begin(), all_a.end(), all_b.begin(), all_b.end(),
                    [](ConstBytes x, ConstBytes y) { return std::equal(x.begin(), x.end(), y.begin(), y.end()); });
}

struct Format {
  MilesEncoding encoding;
  ChecksumFormat checksum_format;
};

std::string ArgumentsOf(const Format& format) {
  return (format.encoding == MilesEncoding::kXor ? " xor " : " overwrite ") + std::string(NameOf(format.checksum_format));
}

constexpr Format kFormats[] = {{MilesEncoding::kXor, ChecksumFormat::kXxh128},
                               {MilesEncoding::kXor, ChecksumFormat::kAdler32},
                               {MilesEncoding::kOverwrite, ChecksumFormat::kXxh128},
                               {MilesEncoding::kOverwrite, ChecksumFormat::kAdler32}};

class MilesPython : public testing::Test {
 protected:
  void SetUp() override {
    if (RunShell(Python() + " -c 'import numpy, safetensors, xxhash, zstandard'") != 0) {
      GTEST_SKIP() << "needs a python3 with numpy, safetensors, xxhash and zstandard (XORBIT_RIVALS_PYTHON)";
    }
    const uint64_t seed = TestSeed();
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    Random random(seed);
    layout_ = Layout::Make({{"model.embed", Dtype::kBF16, {1000, 300}},
                            {"model.norm", Dtype::kF32, {333}},
                            {"model.expert", Dtype::kF8E4M3, {77, 91}},
                            {"model.frozen", Dtype::kI64, {5}}})
                  .value();
    const RandomTensors olds(random, layout_);
    RandomTensors news(random, layout_);
    news.CopyFrom(olds);
    news.Mutate(random, layout_, 10);
    std::copy_n(olds.bytes()[2].begin(), olds.bytes()[2].size(), news.mutable_bytes()[2].begin());
    ASSERT_TRUE(WriteCheckpointFile(PosixFileOps(), folder_ / "old.safetensors", layout_, FillFrom(olds.bytes())).ok());
    ASSERT_TRUE(WriteCheckpointFile(PosixFileOps(), folder_ / "new.safetensors", layout_, FillFrom(news.bytes())).ok());
    UseCheckpoints(folder_ / "old.safetensors", folder_ / "new.safetensors");
  }

  void UseCheckpoints(const fs::path& old_path, const fs::path& new_path) {
    old_path_ = old_path;
    new_path_ = new_path;
    old_ = Checkpoint::Open(old_path).value();
    new_ = Checkpoint::Open(new_path).value();
  }

  // We write, they apply.
  void ExpectTheyReadOurs(const Format& format, const fs::path& delta, uint32_t owner_count) {
    MilesWriteOptions options;
    options.encoding = format.encoding;
    options.checksum_format = format.checksum_format;
    options.owner_count = owner_count;
    options.threads = 2;
    const std::vector<ConstBytes> olds = old_.all_tensor_bytes();
    const std::vector<ConstBytes> news = new_.all_tensor_bytes();
    ASSERT_TRUE(WriteMilesFolder(PosixFileOps(), delta, old_.layout(), olds, news, options).ok());
    const fs::path live = folder_ / "live.safetensors";
    fs::copy_file(old_path_, live, fs::copy_options::overwrite_existing);
    fs::permissions(live, fs::perms::owner_all);
    ASSERT_EQ(RunTool("apply " + live.string() + " " + delta.string()), 0);
    EXPECT_TRUE(SameTensors(Checkpoint::Open(live).value(), new_));
  }

  // They write, we verify and find every change.
  void ExpectWeReadTheirs(const Format& format, const fs::path& delta_path) {
    ASSERT_EQ(
        RunTool("write " + old_path_.string() + " " + new_path_.string() + " " + delta_path.string() + ArgumentsOf(format)), 0);
    const Result<MilesDelta> delta = MilesDelta::Open(delta_path, old_.layout());
    ASSERT_TRUE(delta.ok()) << delta.status().message();
    const std::vector<ConstBytes> olds = old_.all_tensor_bytes();
    const std::vector<ConstBytes> news = new_.all_tensor_bytes();
    EXPECT_EQ(delta->VerifyAgainst(olds, 2).value().state, MilesState::kBase);
    EXPECT_EQ(delta->VerifyAgainst(news, 2).value().state, MilesState::kTarget);
    EXPECT_TRUE(SameBytes(ApplyTo(*delta, olds), news));
  }

  TemporaryFolder folder_;
  Layout layout_;
  fs::path old_path_;
  fs::path new_path_;
  Checkpoint old_;
  Checkpoint new_;
};

TEST_F(MilesPython, TheyReadOurs) {
  for (uint32_t i = 0; i < std::size(kFormats); ++i) ExpectTheyReadOurs(kFormats[i], folder_ / std::to_string(i), 1 + i % 3);
}

TEST_F(MilesPython, WeReadTheirs) {
  for (size_t i = 0; i < std::size(kFormats); ++i) ExpectWeReadTheirs(kFormats[i], folder_ / std::to_string(i));
}

TEST_F(MilesPython, RealStepsBothWays) {
  const char* data = std::getenv("XORBIT_TEST_DATA");
  const fs::path unpack = fs::path(data != nullptr ? data : "") / "rl-run" / "unpack.py";
  if (data == nullptr || !fs::exists(unpack)) GTEST_SKIP() << "needs a folder with rl-run in it (XORBIT_TEST_DATA)";
  ASSERT_EQ(RunShell(Python() + " " + unpack.string() + " " + folder_.path().string()), 0);
  UseCheckpoints(folder_ / "step_000000" / "model.safetensors", folder_ / "step_000001" / "model.safetensors");
  ExpectTheyReadOurs(kFormats[0], folder_ / "ours", 1);
  ExpectWeReadTheirs(kFormats[0], folder_ / "theirs");
}

}  // namespace
}  // namespace xorbit
