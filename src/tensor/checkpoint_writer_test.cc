// What the writer writes must open as what was meant, and be byte for byte what the Python package writes.
#include "tensor/checkpoint_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/temporary_folder.h"
#include "base/testing/seed.h"
#include "tensor/checkpoint.h"
#include "tensor/random_model.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

class CheckpointWriterTest : public testing::Test {
 protected:
  // Compares the checkpoint at `path` with a layout and its bytes.
  static void ExpectHolds(const fs::path& path, const Layout& layout, const std::vector<ConstBytes>& bytes) {
    const auto checkpoint = Checkpoint::Open(path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    ASSERT_EQ(DescribeDifference(layout, "written", checkpoint->layout(), "read"), "");
    for (uint32_t i = 0; i < bytes.size(); ++i) {
      ASSERT_EQ(AsText(checkpoint->tensor_bytes(i)), AsText(bytes[i])) << layout.tensors()[i].name;
    }
  }

  FileOps& ops_ = PosixFileOps();
  TemporaryFolder folder_;
};

TEST_F(CheckpointWriterTest, RandomModelsReadBack) {
  const auto seed = TestSeed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 8; ++round) {
    const Layout layout = RandomLayout(random, 12, 5000);
    const RandomTensors tensors(random, layout);
    const fs::path file = folder_ / (std::to_string(round) + ".safetensors");
    ASSERT_TRUE(WriteCheckpointFile(ops_, file, layout, FillFrom(tensors.bytes())).ok());
    ExpectHolds(file, layout, tensors.bytes());
    const fs::path sharded = folder_ / std::to_string(round);
    const Status status = WriteShardedCheckpoint(ops_, sharded, layout, FillFrom(tensors.bytes()), Between(random, 0, 20'000));
    ASSERT_TRUE(status.ok()) << status.message();
    ExpectHolds(sharded, layout, tensors.bytes());
  }
}

TEST_F(CheckpointWriterTest, LargeTensorsComeInWholeUnits) {
  TensorSpec odd;
  odd.name = "odd";
  odd.dtype = Dtype::kU8;
  odd.shape = {4'194'305};
  TensorSpec wide;
  wide.name = "wide";
  wide.dtype = Dtype::kF64;
  wide.shape = {600'001};
  TensorSpec half;
  half.name = "half";
  half.dtype = Dtype::kF16;
  half.shape = {2'200'003};
  const Layout layout = Layout::Make({odd, wide, half}).value();
  std::vector<uint64_t> filled(3);
  const TensorFiller fill = [&](uint32_t tensor_index, uint64_t offset_bytes, MutableBytes out) -> Status {
    const uint32_t unit_bytes = UnitBytesOf(layout.tensors()[tensor_index].dtype);
    EXPECT_EQ(offset_bytes, filled[tensor_index]);
    EXPECT_EQ(offset_bytes % unit_bytes, 0);
    EXPECT_EQ(out.size() % unit_bytes, 0);
    EXPECT_LE(out.size(), 4 << 20);
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint8_t>((offset_bytes + i) * 2654435761U >> 13);
    filled[tensor_index] += out.size();
    return {};
  };
  ASSERT_TRUE(WriteCheckpointFile(ops_, folder_ / "m.safetensors", layout, fill).ok());
  const auto checkpoint = Checkpoint::Open(folder_ / "m.safetensors");
  ASSERT_TRUE(checkpoint.ok());
  for (uint32_t tensor = 0; tensor < 3; ++tensor) {
    const ConstBytes bytes = checkpoint->tensor_bytes(tensor);
    ASSERT_EQ(bytes.size(), filled[tensor]);
    for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], static_cast<uint8_t>(i * 2654435761U >> 13)) << i;
  }
}

TEST_F(CheckpointWriterTest, ShardsAreNamedAndCutAsUsual) {
  std::vector<TensorSpec> tensors(4);
  for (size_t i = 0; i < 4; ++i) {
    tensors[i].name = std::string(1, static_cast<char>('a' + i));
    tensors[i].shape = {i == 1 ? 100U : 40U};
  }
  const Layout layout = Layout::Make(tensors).value();
  const Buffer zeros(100);
  const std::vector<ConstBytes> bytes = {ConstBytes(zeros).first(40), zeros, ConstBytes(zeros).first(40),
                                         ConstBytes(zeros).first(40)};
  ASSERT_TRUE(WriteShardedCheckpoint(ops_, folder_ / "m", layout, FillFrom(bytes), 80).ok());
  ExpectHolds(folder_ / "m", layout, bytes);
  EXPECT_EQ(Checkpoint::Open(folder_ / "m")->files().size(), 3);
  EXPECT_EQ(Checkpoint::Open(folder_ / "m/model-00003-of-00003.safetensors")->layout().tensors().size(), 2);
  EXPECT_EQ(WriteShardedCheckpoint(ops_, folder_ / "m", layout, FillFrom(bytes), 80).code(), Code::kExists);
}

TEST_F(CheckpointWriterTest, AFailedWriteLeavesNothing) {
  std::vector<TensorSpec> tensors(2);
  tensors[0].name = "a";
  tensors[1].name = "b";
  const Layout layout = Layout::Make(tensors).value();
  const TensorFiller fill = [](uint32_t tensor_index, uint64_t, MutableBytes) -> Status {
    return tensor_index == 1 ? IoError("the source is gone") : Status();
  };
  const Status status = WriteCheckpointFile(ops_, folder_ / "m.safetensors", layout, fill);
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_THAT(status.message(), HasSubstr("m.safetensors: the source is gone"));
  EXPECT_EQ(WriteShardedCheckpoint(ops_, folder_ / "m", layout, fill, 0).code(), Code::kIo);
  EXPECT_TRUE(fs::is_empty(folder_.path()));

  const TensorFiller good = [](uint32_t, uint64_t, MutableBytes out) -> Status {
    out[0] = 7;
    return {};
  };
  ASSERT_TRUE(WriteCheckpointFile(ops_, folder_ / "m.safetensors", layout, good).ok());
  EXPECT_EQ(WriteCheckpointFile(ops_, folder_ / "m.safetensors", layout, fill).code(), Code::kExists);
  EXPECT_TRUE(Checkpoint::Open(folder_ / "m.safetensors").ok()) << "a file that was there stays";
}

// Both ways with the real thing, where it is installed.
TEST_F(CheckpointWriterTest, EqualsThePythonPackage) {
  constexpr const char* kScript = R"(
import ctypes, sys
try:
    from safetensors import TensorSpec, deserialize, serialize
except ImportError:
    sys.exit(77)
kinds = {"model.b": ("bfloat16", [3, 5], 30), "model.a": ("bfloat16", [7], 14), "norm": ("float32", [], 4), "bits": ("bool", [3], 3),
         "none": ("float64", [2, 0], 0), "caf\u00e9 \" \\ \n": ("int64", [1], 8), "scale": ("float8_e8m0fnu", [9], 9)}
data = {name: bytes((i * 7 + len(name)) % 256 for i in range(kind[2])) for name, kind in kinds.items()}
buffers = {name: ctypes.create_string_buffer(data[name], max(1, len(data[name]))) for name in data}
specs = {name: TensorSpec(dtype=dtype, shape=shape, data_ptr=ctypes.addressof(buffers[name]), data_len=size)
         for name, (dtype, shape, size) in kinds.items()}
if len(sys.argv) == 2:
    with open(sys.argv[1], "wb") as file:
        file.write(serialize(specs, {"format": "pt"}))
else:
    with open(sys.argv[2], "rb") as file:
        read = {name: bytes(tensor["data"]) for name, tensor in deserialize(file.read())}
    sys.exit(0 if read == data else 1)
)";
  ASSERT_TRUE(WriteWholeFile(ops_, folder_ / "script.py", AsBytes(kScript)).ok());
  const std::string python = "python3 '" + (folder_ / "script.py").string() + "' '";
  const fs::path theirs = folder_ / "theirs.safetensors";
  const fs::path ours = folder_ / "ours.safetensors";
  const int status = std::system((python + theirs.string() + "' 2>&1").c_str());
  if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127) GTEST_SKIP() << "Python's safetensors is not installed";
  ASSERT_EQ(status, 0);

  const auto checkpoint = Checkpoint::Open(theirs);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->layout().tensors().size(), 7);
  ASSERT_TRUE(WriteCheckpointFile(ops_, ours, checkpoint->layout(), FillFrom(checkpoint->all_tensor_bytes())).ok());
  EXPECT_EQ(ReadWholeFile(ours, 10'000).value(), ReadWholeFile(theirs, 10'000).value());
  EXPECT_EQ(std::system((python + "read' '" + ours.string() + "'").c_str()), 0);
}

}  // namespace
}  // namespace xorbit
