// Deltas whose hashes are right and whose contents lie: what each command says, and that the weights stay as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "backend/cpu/cpu_backend.h"
#include "base/temporary_folder.h"
#include "journey/delta_report.h"
#include "journey/journey.h"
#include "journey/sealing.h"

namespace xorbit {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kElements = 1000;

class HostileDelta : public ::testing::Test {
 protected:
  HostileDelta() : backend_(MakeCpuBackend()), old_bytes_(2 * kElements, 7), new_bytes_(old_bytes_) {
    runtime_ = {.backend = backend_.get(), .file_ops = &PosixFileOps(), .threads = 1};
    for (uint64_t i = 0; i < new_bytes_.size(); i += 14) new_bytes_[i] ^= 1;
  }

  static Layout LayoutOf(uint64_t element_count) {
    return Layout::Make({TensorSpec{.name = "w", .dtype = Dtype::kBF16, .shape = {element_count}}}).value();
  }
  StateDigest DigestOf(const Buffer& bytes) const {
    const std::vector<ConstBytes> tensors = {bytes};
    return backend_->Scan(LayoutOf(kElements), tensors, ScanScope::kAll, 1);
  }

  // Seals old -> new, encoded and then damaged, as the delta that starts from state `base`.
  fs::path Seal(const std::function<void(EncodedSegment*)>& damage, const StateDigest& base) {
    const Layout layout = LayoutOf(kElements);
    const auto owners = PlanOwners(layout, 1, Split::kWhole).value();
    const std::vector<ConstBytes> olds = {old_bytes_};
    const std::vector<ConstBytes> news = {new_bytes_};
    EncodedOwner encoded = backend_
                               ->EncodeDiff(layout, owners[0], {.bytes = InTensors(owners[0], olds)},
                                            InTensors(owners[0], news), CodecId::kSparse, {})
                               .value();
    damage(&encoded.segments[0]);
    std::vector<Payload> payloads;
    payloads.push_back(WritePayload(layout, {CodecId::kSparse, 0, 1}, owners[0], std::move(encoded.segments), 1).value());
    const DeltaSummary summary =
        SealDelta(runtime_, folder_ / "delta", layout, payloads, base, base + payloads[0].change).value();
    file_ = summary.manifest.owners[0].file;
    return folder_ / "delta";
  }

  fs::path WriteModel(const Buffer& bytes) {
    Buffer file = BuildSafetensorsHeader({{{"w", Dtype::kBF16, {kElements}, 0, 0}}, {}}).value();
    AppendBytes(file, bytes);
    const fs::path path = folder_ / "model.safetensors";
    EXPECT_TRUE(WriteWholeFile(PosixFileOps(), path, file).ok());
    return path;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Backend> backend_;
  Runtime runtime_;
  Buffer old_bytes_;
  Buffer new_bytes_;
  std::string file_;  // the sealed delta's only payload
};

TEST_F(HostileDelta, ErrorsOfDecodingNameTheFile) {
  const fs::path delta = Seal([](EncodedSegment* segment) { segment->body[0][0] ^= 1; }, DigestOf(old_bytes_));
  const auto chain = OpenChain(runtime_, {delta});
  ASSERT_TRUE(chain.ok()) << chain.status().message();
  const std::string where = (delta / file_).string() + ": sparse tile 0";
  EXPECT_THAT(ReportTensors(runtime_, chain->front()).status().message(), HasSubstr(where));
  EXPECT_THAT(FoldDeltas(runtime_, {delta}, folder_ / "fold", nullptr, {}).status().message(), HasSubstr(where));
  const fs::path model = WriteModel(old_bytes_);
  EXPECT_THAT(ApplyInPlace(runtime_, model, {delta}, Direction::kForward).status().message(), HasSubstr(where));
  EXPECT_FALSE(fs::exists(folder_ / ".xorbit"));  // a refusal leaves nothing behind
}

// The manifest says that the delta starts from the model's state, but its tiles were cut from other old values.
TEST_F(HostileDelta, ATileThatDoesNotFitTheWeightsIsNamed) {
  Buffer model_bytes = old_bytes_;
  model_bytes[14] ^= 1;  // the bit that the delta flips there: its change has the other sign
  const fs::path delta = Seal([](EncodedSegment*) {}, DigestOf(model_bytes));
  const fs::path model = WriteModel(model_bytes);
  for (const bool in_place : {true, false}) {
    const Status status = in_place ? ApplyInPlace(runtime_, model, {delta}, Direction::kForward).status()
                                   : ApplyToCopy(runtime_, model, {delta}, folder_ / "copy", Direction::kForward).status();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_THAT(status.message(), HasSubstr((delta / file_).string()));
    EXPECT_THAT(status.message(), HasSubstr("tensor 'w' at or after element"));
  }
  const Checkpoint unchanged = Checkpoint::Open(model).value();
  EXPECT_EQ(Buffer(unchanged.tensor_bytes(0).begin(), unchanged.tensor_bytes(0).end()), model_bytes);
}

// A layout costs nothing to state; folding without a checkpoint must not walk it.
TEST_F(HostileDelta, AFoldDoesNotWalkWhatNobodyHasProven) {
  const auto fold = [&](uint64_t element_count, const std::string& name) {
    const Layout layout = LayoutOf(element_count);
    const auto owners = PlanOwners(layout, 1, Split::kWhole).value();
    std::vector<Payload> payloads;
    payloads.push_back(WritePayload(layout, {CodecId::kLz4, 0, 1}, owners[0], {EncodedSegment{}}, 1).value());
    EXPECT_TRUE(SealDelta(runtime_, folder_ / name, layout, payloads, {}, {}).ok());
    return FoldDeltas(runtime_, {folder_ / name}, folder_ / (name + "-fold"), nullptr, {}).status();
  };
  EXPECT_TRUE(fold(uint64_t{1} << 36, "large").ok());
  const Status status = fold(uint64_t{1} << 50, "huge");
  EXPECT_EQ(status.code(), Code::kRefused);
  EXPECT_THAT(status.message(), HasSubstr("give --checkpoint"));
}

}  // namespace
}  // namespace xorbit
