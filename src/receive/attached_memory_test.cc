// What is refused when somebody attaches: a second writer, whatever he calls the memory; memory that is named twice; memory
// that is gone. The journey through attached memory is tested where servers are (attached_sampler_test).
#include "receive/attached_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/temporary_folder.h"
#include "receive/exported_memory.h"
#include "tensor/live_map.h"
#include "tensor/tensor_test_util.h"

namespace xorbit {
namespace {

using testing::HasSubstr;

class AttachedMemoryTest : public testing::Test {
 protected:
  AttachedMemoryTest() {
    engine_ = ExportedMemory::Make(layout_, CanonicalMap(layout_), {name_, path_, 1 << 20}).value();
    EXPECT_TRUE(engine_->Publish(layout_).ok());
    attachment_ = ParseAttachmentJson(AsText(ReadWholeFile(path_, kMaxAttachmentBytes).value())).value();
  }
  ~AttachedMemoryTest() override { fs::remove(alias_file()); }

  fs::path segment_file() const { return "/dev/shm" + name_; }
  fs::path alias_file() const { return segment_file().string() + "-alias"; }
  // The engine's attachment, as somebody has changed it.
  fs::path Write(const Attachment& attachment) {
    const fs::path path = folder_ / ("attachment-" + std::to_string(written_count_++));
    EXPECT_TRUE(WriteWholeFile(PosixFileOps(), path, AsBytes(WriteAttachmentJson(attachment))).ok());
    return path;
  }
  std::string WhyNot(const fs::path& path) {
    const auto attached = AttachedMemory::Attach(path, layout_);
    return attached.ok() ? "nothing" : attached.status().message();
  }

  TemporaryFolder folder_;
  const std::string name_ = "/xorbit-test-" + std::to_string(::getpid());
  const fs::path path_ = folder_ / "engine.json";
  const Layout layout_ = MakeLayout({Tensor("a", Dtype::kBF16, {5'000}), Tensor("b", Dtype::kF32, {3'000})});
  std::unique_ptr<ExportedMemory> engine_;
  Attachment attachment_;
  int written_count_ = 0;
};

TEST_F(AttachedMemoryTest, OneAtATimeWhateverTheFileAndTheSegmentAreCalled) {
  fs::create_symlink(path_, folder_ / "link.json");
  fs::create_hard_link(segment_file(), alias_file());
  Attachment renamed = attachment_;
  renamed.segments.front().name += "-alias";
  const std::vector<fs::path> ways = {path_, folder_ / "link.json", Write(attachment_), Write(renamed)};
  for (const fs::path& first : ways) {
    const auto attached = AttachedMemory::Attach(first, layout_);
    ASSERT_TRUE(attached.ok()) << attached.status().message();
    for (const fs::path& second : {ways.front(), ways.back()})
      EXPECT_THAT(WhyNot(second), HasSubstr("another process has attached"));
  }
}

TEST_F(AttachedMemoryTest, NoMemoryIsNamedTwice) {
  Attachment twice = attachment_;
  twice.segments.push_back(twice.segments.front());
  twice.undo.segment_index = 1;
  EXPECT_THAT(WhyNot(Write(twice)), HasSubstr("segment 1 is memory that another segment is already"));
  fs::create_hard_link(segment_file(), alias_file());
  twice.segments[1].name += "-alias";
  EXPECT_THAT(WhyNot(Write(twice)), HasSubstr("segment 1 is memory that another segment is already"));
  Attachment over = attachment_;
  over.undo.offset_bytes = over.regions[1].offset_bytes;
  EXPECT_THAT(WhyNot(Write(over)), HasSubstr("overlap"));
  EXPECT_EQ(WhyNot(path_), "nothing");
}

TEST_F(AttachedMemoryTest, TheLiveMapIsTheFileThatIsNamed) {
  Attachment cut = attachment_;
  cut.live_map += std::string("\0x", 2);
  EXPECT_THAT(WhyNot(Write(cut)), HasSubstr("a path has no zero bytes"));
}

TEST_F(AttachedMemoryTest, MemoryThatIsCutIsNotTouched) {
  const auto attached = AttachedMemory::Attach(path_, layout_).value();
  EXPECT_TRUE(attached->CheckReach().ok());
  EXPECT_TRUE(attached->Close(std::chrono::steady_clock::now()).ok());
  attached->Open(7);
  const uint64_t byte_count = fs::file_size(segment_file());
  fs::resize_file(segment_file(), 4'096);
  EXPECT_THAT(attached->CheckReach().message(), HasSubstr("has cut its shared memory"));
  EXPECT_THAT(attached->Readiness().message(), HasSubstr("has cut its shared memory"));
  EXPECT_THAT(attached->Close(std::chrono::steady_clock::now()).message(), HasSubstr("has cut its shared memory"));
  EXPECT_FALSE(engine_->gate().is_closed());
  fs::resize_file(segment_file(), byte_count);
  EXPECT_TRUE(attached->CheckReach().ok());
}

}  // namespace
}  // namespace xorbit
