// A folder must appear whole or not at all, and never replace one that is there.
#include "base/staged_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/temporary_folder.h"

namespace xorbit {
namespace {

class StagedFolderTest : public testing::Test {
 protected:
  size_t EntryCount() const { return static_cast<size_t>(std::distance(fs::directory_iterator(root_.path()), {})); }

  TemporaryFolder root_;
};

TEST_F(StagedFolderTest, AppearsWithItsFilesOnPublish) {
  StagedFolder staged = StagedFolder::Make(PosixFileOps(), root_ / "delta" / "").value();
  ASSERT_TRUE(WriteWholeFile(PosixFileOps(), staged.path() / "file", AsBytes("content")).ok());
  EXPECT_FALSE(fs::exists(root_ / "delta"));
  EXPECT_TRUE(staged.Publish().ok());
  EXPECT_EQ(AsText(ReadWholeFile(root_ / "delta" / "file", 100).value()), "content");
  EXPECT_EQ(EntryCount(), 1U);
}

TEST_F(StagedFolderTest, LeavesNothingWithoutPublish) {
  {
    StagedFolder staged = StagedFolder::Make(PosixFileOps(), root_ / "delta").value();
    ASSERT_TRUE(WriteWholeFile(PosixFileOps(), staged.path() / "file", AsBytes("content")).ok());
    const StagedFolder moved = std::move(staged);
    EXPECT_EQ(EntryCount(), 1U);
  }
  EXPECT_EQ(EntryCount(), 0U);
}

TEST_F(StagedFolderTest, RemovesWhatTheDeadLeftAndNothingElse) {
  const auto make = [&](const char* name) {
    fs::create_directories(root_ / name / "full");
    return root_ / name;
  };
  const fs::path dead = make(".delta.tmp-4711-0123abcd");
  const fs::path others[] = {make(".delta.tmp-notes"), make(".delta.tmp-4711-0123abcde"), make(".delta2.tmp-4711-0123abcd"),
                             make("delta.tmp-4711-0123abcd")};
  const StagedFolder living = StagedFolder::Make(PosixFileOps(), root_ / "delta").value();
  EXPECT_FALSE(fs::exists(dead));
  const StagedFolder second = StagedFolder::Make(PosixFileOps(), root_ / "delta").value();
  EXPECT_TRUE(fs::exists(living.path()));
  for (const fs::path& other : others) EXPECT_TRUE(fs::exists(other / "full")) << other;
}

TEST_F(StagedFolderTest, RemovesNothingBehindALink) {
  fs::create_directories(root_ / "precious" / "full");
  fs::create_directory_symlink(root_ / "precious", root_ / ".delta.tmp-4711-0123abcd");
  ASSERT_TRUE(StagedFolder::Make(PosixFileOps(), root_ / "delta").ok());
  EXPECT_TRUE(fs::exists(root_ / "precious" / "full"));
}

TEST_F(StagedFolderTest, PublishesAnEntryAlone) {
  {
    StagedFolder staged = StagedFolder::Make(PosixFileOps(), root_ / "delta").value();
    fs::create_directories(staged.path() / "full" / "inner");
    EXPECT_TRUE(staged.PublishEntry("full", root_ / "delta" / "").ok());
    fs::create_directories(staged.path() / "full");
    EXPECT_EQ(staged.PublishEntry("full", root_ / "delta").code(), Code::kExists);
  }
  EXPECT_TRUE(fs::exists(root_ / "delta" / "inner"));
  EXPECT_EQ(EntryCount(), 1U);
}

TEST_F(StagedFolderTest, ScratchDoesNotCareWhatHasItsName) {
  fs::create_directory(root_ / "delta");
  EXPECT_TRUE(StagedFolder::MakeScratch(PosixFileOps(), root_ / "delta").ok());
}

// In a process of its own, for nothing can be staged afterwards.
TEST_F(StagedFolderTest, AllAreRemovedWhenTheProcessIsStopped) {
  EXPECT_EXIT(
      {
        StagedFolder published = StagedFolder::Make(PosixFileOps(), root_ / "published").value();
        const StagedFolder staged = StagedFolder::Make(PosixFileOps(), root_ / "delta").value();
        const bool made = published.Publish().ok() && fs::create_directories(staged.path() / "full");
        RemoveStagedFolders();
        std::_Exit(made ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_TRUE(fs::exists(root_ / "published"));
  EXPECT_EQ(EntryCount(), 1U);
}

TEST_F(StagedFolderTest, NeverReplaces) {
  StagedFolder late = StagedFolder::Make(PosixFileOps(), root_ / "delta").value();
  fs::create_directory(root_ / "delta");
  EXPECT_EQ(late.Publish().code(), Code::kExists);
  EXPECT_TRUE(fs::is_empty(root_ / "delta"));
  const Status status = StagedFolder::Make(PosixFileOps(), root_ / "delta").status();
  EXPECT_EQ(status.code(), Code::kExists);
  EXPECT_THAT(status.message(), testing::HasSubstr("choose another name"));
}

TEST_F(StagedFolderTest, RefusesWhatCannotBeAName) {
  EXPECT_EQ(StagedFolder::Make(PosixFileOps(), "/").status().code(), Code::kUsage);
  EXPECT_EQ(StagedFolder::Make(PosixFileOps(), "").status().code(), Code::kUsage);
  EXPECT_EQ(StagedFolder::Make(PosixFileOps(), root_ / "absent" / "delta").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace xorbit
