// Threads and processes that all want to decide the same versions: one wins, and all hear the same.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "base/parallel.h"
#include "base/temporary_folder.h"
#include "store/testing/made_up_stream.h"
#include "transport/folder_store.h"
#include "transport/testing/memory_store.h"

namespace xorbit {
namespace {

constexpr uint64_t kRacedVersions = 3;

// Publishes, as one of many, until `kRacedVersions` are decided; gives up a version now and then. What it heard, by version.
Result<std::vector<VersionRecord>> Race(ObjectStore& store, uint64_t racer) {
  XORBIT_ASSIGN_OR_RETURN(Stream stream, Stream::Open(store, "run-1"));
  std::vector<VersionRecord> heard;
  for (uint64_t version = 1; version <= kRacedVersions; ++version) {
    if (racer % 4 == 3 && version == 2) {
      XORBIT_ASSIGN_OR_RETURN(VersionRecord record, stream.Decide(AbortRecord(version)));
      heard.push_back(std::move(record));
      continue;
    }
    XORBIT_ASSIGN_OR_RETURN(const uint64_t newest, stream.Newest());
    const PublicationPlace place{std::min(newest, version - 1), version, "racer-" + std::to_string(racer)};
    Result<VersionRecord> record = testing_store::Publish(stream, place, racer + 1);
    if (!record.ok() && record.status().code() == Code::kRefused) {  // decided by another before this one sealed
      XORBIT_ASSIGN_OR_RETURN(record, stream.Decide(AbortRecord(version)));
    }
    if (!record.ok()) return record.status();
    heard.push_back(std::move(record).value());
  }
  return heard;
}

TEST(StreamRace, ThreadsHearOneDecision) {
  MemoryStore store;
  Stream stream = testing_store::CreateStream(store);
  constexpr uint64_t racer_count = 8;
  std::vector<std::vector<VersionRecord>> heard(racer_count);
  const Status status = ParallelFor(racer_count, racer_count, [&](uint64_t racer) -> Status {
    XORBIT_ASSIGN_OR_RETURN(heard[racer], Race(store, racer));
    return {};
  });
  ASSERT_TRUE(status.ok()) << status.message();
  for (const std::vector<VersionRecord>& records : heard) EXPECT_EQ(records, heard[0]);
  for (uint64_t version = 1; version <= kRacedVersions; ++version) {
    EXPECT_EQ(**stream.Record(version), heard[0][version - 1]);
    if (!heard[0][version - 1].committed()) continue;
    EXPECT_TRUE(stream.StepEdge(version).ok());
  }
}

TEST(StreamRace, OneStreamServesManyThreads) {
  MemoryStore store;
  Stream stream = testing_store::CreateStream(store);
  constexpr uint64_t version_count = 12;
  const Status status = ParallelFor(6, 6, [&](uint64_t thread) -> Status {
    if (thread == 0) {
      testing_store::PublishChain(stream, version_count);
      return {};
    }
    for (uint64_t newest = 0; newest < version_count;) {
      XORBIT_ASSIGN_OR_RETURN(const uint64_t next, stream.Newest());
      if (next < newest) return CorruptError("went back");
      newest = next;
      XORBIT_ASSIGN_OR_RETURN(const std::vector<Hop> route, stream.Route(0, newest));
      if (route.size() != newest) return CorruptError("not every step is there");
    }
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

// Exit code: 0, or 1 if it failed. What it heard is in `folder`/heard-N.
int RaceAsProcess(const fs::path& folder, uint64_t racer) {
  auto store = OpenFolderStore(PosixFileOps(), folder / "store");
  if (!store.ok()) return 1;
  const auto heard = Race(**store, racer);
  if (!heard.ok()) return 1;
  std::string text;
  for (const VersionRecord& record : *heard) text += WriteVersionRecord(record);
  return WriteWholeFile(PosixFileOps(), folder / ("heard-" + std::to_string(racer)), AsBytes(text)).ok() ? 0 : 1;
}

TEST(StreamRace, ProcessesHearOneDecision) {
  const TemporaryFolder folder;
  {
    auto store = OpenFolderStore(PosixFileOps(), folder / "store").value();
    testing_store::CreateStream(*store);
  }
  std::vector<pid_t> children;
  constexpr uint64_t racer_count = 5;
  for (uint64_t racer = 0; racer < racer_count; ++racer) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(RaceAsProcess(folder.path(), racer));
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int state = 0;
    ASSERT_EQ(::waitpid(child, &state, 0), child);
    EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0);
  }
  std::set<std::string> heard;
  for (uint64_t racer = 0; racer < racer_count; ++racer) {
    heard.insert(std::string(AsText(*ReadWholeFile(folder / ("heard-" + std::to_string(racer)), 1 << 20))));
  }
  EXPECT_EQ(heard.size(), 1U);
}

}  // namespace
}  // namespace xorbit
