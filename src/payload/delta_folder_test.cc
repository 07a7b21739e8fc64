// Delta folders: whole or not at all, and nothing in them believed without a check.
#include "payload/delta_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "base/temporary_folder.h"
#include "base/testing/forwarding_file_ops.h"
#include "base/text.h"
#include "payload/payload_test_util.h"

namespace xorbit {
namespace {

using namespace testing_payload;  // NOLINT(google-build-using-namespace): helpers made for these tests
using ::testing::HasSubstr;

class DeltaFolder : public ::testing::Test {
 protected:
  Status Write(const MadeUpDelta& delta, const fs::path& folder, FileOps& ops = PosixFileOps()) {
    return WriteDeltaFolder(ops, folder, delta.layout, delta.manifest, delta.payloads);
  }

  std::vector<std::string> NamesIn(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string OpenError(const fs::path& folder, bool verify_hashes = true) {
    const auto delta = OpenDeltaFolder(folder, {.threads = 2, .verify_hashes = verify_hashes});
    return delta.ok() ? "" : delta.status().message();
  }

  TemporaryFolder place_;
};

Buffer ReadAll(const fs::path& path) {
  auto bytes = ReadWholeFile(path, UINT64_MAX);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  return std::move(bytes).value();
}

void WriteByte(const fs::path& path, size_t offset, uint8_t byte) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte));
}

void Overwrite(const fs::path& path, ConstBytes bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

TEST_F(DeltaFolder, RoundTrips) {
  for (const bool has_digests : {true, false}) {
    const MadeUpDelta delta = MakeDelta(2, has_digests);
    const fs::path folder = place_ / (has_digests ? "with" : "without");
    ASSERT_TRUE(Write(delta, folder).ok());
    EXPECT_EQ(NamesIn(folder), (std::vector<std::string>{"layouts", "manifest.json", delta.manifest.owners[0].file,
                                                         delta.manifest.owners[1].file}));
    const auto opened = OpenDeltaFolder(folder, {.threads = 2, .verify_hashes = true});
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(WriteManifest(opened->manifest), WriteManifest(delta.manifest));
    EXPECT_EQ(opened->layout.tensors(), delta.layout.tensors());
    ASSERT_EQ(opened->payloads.size(), 2U);
    EXPECT_TRUE(std::ranges::equal(opened->files[1].bytes(), FileBytesOf(delta.payloads[1])));
    EXPECT_EQ(opened->total_file_bytes,
              WriteManifest(delta.manifest).size() + delta.payloads[0].byte_count + delta.payloads[1].byte_count);
  }
  EXPECT_EQ(NamesIn(place_.path()), (std::vector<std::string>{"with", "without"}));
}

TEST_F(DeltaFolder, AcceptsTrailingSlashAndRelativeNames) {
  ASSERT_TRUE(Write(MakeDelta(1), place_.path().string() + "/delta/").ok());
  EXPECT_EQ(OpenError(place_ / "delta"), "");
  const fs::path before = fs::current_path();
  fs::current_path(place_.path());
  const Status status = Write(MakeDelta(1), "here");
  fs::current_path(before);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(OpenError(place_ / "here"), "");
  EXPECT_EQ(Write(MakeDelta(1), "..").code(), Code::kExists);
  EXPECT_EQ(Write(MakeDelta(1), "/").code(), Code::kUsage);
}

TEST_F(DeltaFolder, IsNeverWrittenOverAnything) {
  fs::create_directory(place_ / "folder");
  std::ofstream(place_ / "file") << "mine";
  fs::create_symlink("nowhere", place_ / "link");
  for (const std::string name : {"folder", "file", "link"}) {
    EXPECT_EQ(Write(MakeDelta(1), place_ / name).code(), Code::kExists) << name;
  }
  EXPECT_EQ(NamesIn(place_.path()), (std::vector<std::string>{"file", "folder", "link"}));
  EXPECT_TRUE(fs::is_empty(place_ / "folder"));
  EXPECT_EQ(Write(MakeDelta(1), place_ / "absent" / "delta").code(), Code::kNotFound);
}

TEST_F(DeltaFolder, LeftoversOfADeadProcessDoNotDisturb) {
  fs::create_directory(place_ / ".delta.tmp-1-0000000000000000");
  ASSERT_TRUE(Write(MakeDelta(1), place_ / "delta").ok());
  EXPECT_EQ(OpenError(place_ / "delta"), "");
}

// Fails the call of this index, and records what was called.
class FailingOps final : public ForwardingFileOps {
 public:
  explicit FailingOps(size_t fail_at) : fail_at_(fail_at) {}
  const std::vector<std::string>& calls() const { return calls_; }

  Result<UniqueFd> Create(const fs::path& path, bool exclusive) override {
    EXPECT_TRUE(exclusive);
    if (Fails("create")) return NoSpace();
    return ForwardingFileOps::Create(path, exclusive);
  }
  Status Pwrite(const UniqueFd& fd, ConstBytes bytes, uint64_t offset_bytes) override {
    return Fails("write") ? NoSpace() : ForwardingFileOps::Pwrite(fd, bytes, offset_bytes);
  }
  Status Sync(const UniqueFd& fd) override { return Fails("sync") ? NoSpace() : ForwardingFileOps::Sync(fd); }
  Status SyncFolder(const fs::path& folder) override {
    return Fails("sync folder") ? NoSpace() : ForwardingFileOps::SyncFolder(folder);
  }
  Status MakeFolder(const fs::path& folder) override {
    return Fails("make folder") ? NoSpace() : ForwardingFileOps::MakeFolder(folder);
  }
  Status RenameNoReplace(const fs::path& from, const fs::path& to) override {
    return Fails("rename") ? NoSpace() : ForwardingFileOps::RenameNoReplace(from, to);
  }

 private:
  bool Fails(std::string call) {
    calls_.push_back(std::move(call));
    return calls_.size() == fail_at_ + 1;
  }
  static Status NoSpace() { return IoError("no space"); }

  size_t fail_at_;
  std::vector<std::string> calls_;
};

TEST_F(DeltaFolder, IsWrittenWholeOrNotAtAll) {
  const MadeUpDelta delta = MakeDelta(2);
  FailingOps recorder(SIZE_MAX);
  ASSERT_TRUE(Write(delta, place_ / "recorded", recorder).ok());
  const std::vector<std::string>& calls = recorder.calls();
  // Every file is synced, then the folders, then the one rename that makes it a delta, then the parent.
  ASSERT_GE(calls.size(), 3U);
  EXPECT_EQ(std::vector<std::string>(calls.end() - 4, calls.end()),
            (std::vector<std::string>{"sync", "sync folder", "rename", "sync folder"}));
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "create"), 4);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "sync"), 4);
  fs::remove_all(place_ / "recorded");

  for (size_t fail_at = 0; fail_at < calls.size(); ++fail_at) {
    FailingOps ops(fail_at);
    const Status status = Write(delta, place_ / "delta", ops);
    EXPECT_EQ(status.code(), Code::kIo) << fail_at;
    if (fail_at + 1 < calls.size()) {
      EXPECT_EQ(NamesIn(place_.path()), std::vector<std::string>()) << calls[fail_at] << " " << fail_at;
    } else {
      EXPECT_EQ(OpenError(place_ / "delta"), "");  // only the parent's fsync failed
    }
  }
}

TEST_F(DeltaFolder, SaysWhatIsMissing) {
  const MadeUpDelta delta = MakeDelta(1);
  const fs::path folder = place_ / "delta";
  EXPECT_EQ(OpenError(folder), "'" + folder.string() + "' is not a delta: it has no manifest.json");
  ASSERT_TRUE(Write(delta, folder).ok());
  fs::remove(folder / delta.manifest.owners[0].file);
  EXPECT_THAT(OpenError(folder), HasSubstr(delta.manifest.owners[0].file));
  fs::remove_all(folder / "layouts");
  EXPECT_THAT(OpenError(folder), HasSubstr(ToHex(delta.layout.digest())));
}

// A byte changed anywhere in a delta, hashes verified: refused, with the file's name, unless it is still the same delta or the
// change only touches what is policy (groups and frozen marks; those the payloads contradict).
TEST_F(DeltaFolder, EveryFlippedByteIsRefused) {
  const MadeUpDelta delta = MakeDelta(2);
  const fs::path folder = place_ / "delta";
  ASSERT_TRUE(Write(delta, folder).ok());
  const fs::path layout_file = folder / "layouts" / (ToHex(delta.layout.digest()) + ".json");
  for (const fs::path& file : {folder / "manifest.json", layout_file, folder / delta.manifest.owners[0].file,
                               folder / delta.manifest.owners[1].file}) {
    const Buffer good = ReadAll(file);
    for (size_t i = 0; i < good.size(); ++i) {
      WriteByte(file, i, good[i] ^ 0x10);
      const auto opened = OpenDeltaFolder(folder, {});
      if (opened.ok()) {
        EXPECT_TRUE(file == folder / "manifest.json" || file == layout_file) << file << " byte " << i;
        EXPECT_EQ(opened->layout.digest(), delta.layout.digest());
        EXPECT_EQ(opened->manifest.target - opened->manifest.base, delta.manifest.target - delta.manifest.base);
      } else {
        EXPECT_THAT(opened.status().message(), HasSubstr(place_.path().string()));
        EXPECT_EQ(opened.status().message().find('\n'), std::string::npos);
      }
      WriteByte(file, i, good[i]);
    }
    for (const size_t byte_count : {size_t{0}, good.size() / 2, good.size() - 2}) {
      Overwrite(file, ConstBytes(good).first(byte_count));
      EXPECT_NE(OpenError(folder, false), "") << file;
    }
    Overwrite(file, good);
  }
  EXPECT_EQ(OpenError(folder), "");
}

TEST_F(DeltaFolder, UnverifiedOpenStillChecksStructure) {
  const MadeUpDelta delta = MakeDelta(1);
  const fs::path folder = place_ / "delta";
  ASSERT_TRUE(Write(delta, folder).ok());
  const fs::path file = folder / delta.manifest.owners[0].file;
  Buffer bytes = ReadAll(file);
  bytes.back() ^= 1;
  Overwrite(file, bytes);
  EXPECT_EQ(OpenError(folder, false), "");
  EXPECT_EQ(OpenError(folder), file.string() + ": does not match its SHA-256");
  bytes[0] = 'x';
  Overwrite(file, bytes);
  EXPECT_EQ(OpenError(folder, false), file.string() + ": is not a xorbit payload");
  EXPECT_EQ(OpenError(folder), file.string() + ": its head does not match its SHA-256");
}

// Payloads and manifest agree with each other, but not with the layout: an element owned twice, or by nobody.
TEST_F(DeltaFolder, RefusesWrongCoverage) {
  const Layout layout = SmallLayout();
  auto owners = *PlanOwners(layout, 2, Split::kWhole);
  const auto write = [&](const fs::path& folder) {
    MadeUpDelta delta{layout, {}, {}};
    StateDigest target;
    for (uint32_t owner = 0; owner < 2; ++owner) {
      delta.payloads.push_back(MadeUpPayload(layout, owners[owner], {CodecId::kSparse, owner, 2}, owner));
      target += delta.payloads.back().change;
    }
    delta.manifest = *SealManifest(layout, delta.payloads, {}, target);
    ASSERT_TRUE(Write(delta, folder).ok());
  };
  write(place_ / "good");
  EXPECT_EQ(OpenError(place_ / "good"), "");
  owners[1] = (*PlanOwners(layout, 1, Split::kWhole))[0];
  write(place_ / "twice");
  EXPECT_THAT(OpenError(place_ / "twice"), HasSubstr("owned twice"));
  owners[1].clear();
  write(place_ / "missing");
  EXPECT_THAT(OpenError(place_ / "missing"), HasSubstr("owned by nobody"));
}

TEST_F(DeltaFolder, RefusesPayloadsThatContradictTheManifest) {
  const MadeUpDelta delta = MakeDelta(2);
  const auto error_with = [&](const std::function<void(Manifest&)>& change) {
    MadeUpDelta changed = delta;
    change(changed.manifest);
    const fs::path folder = place_ / "delta";
    EXPECT_TRUE(Write(changed, folder).ok());
    const std::string error = OpenError(folder, false);
    fs::remove_all(folder);
    return error;
  };
  EXPECT_EQ(error_with([](Manifest&) {}), "");
  EXPECT_THAT(error_with([](Manifest& manifest) { manifest.codec = CodecId::kZstd; }), HasSubstr("another codec"));
  EXPECT_THAT(error_with([](Manifest& manifest) { manifest.total_bytes += 1; }), HasSubstr("total_bytes"));
  EXPECT_THAT(error_with([](Manifest& manifest) { manifest.owners[0].byte_count += 1; }), HasSubstr("the manifest says"));
  EXPECT_THAT(error_with([](Manifest& manifest) { manifest.owners[0].head_byte_count -= 8; }),
              HasSubstr("head of another length"));
  EXPECT_THAT(error_with([](Manifest& manifest) {
                manifest.owners[0].change_count += 1;
                manifest.owners[1].change_count -= 1;
              }),
              HasSubstr("another change count"));
  EXPECT_THAT(error_with([](Manifest& manifest) {
                manifest.owners[0].change += StateDigest{1, 0};
                manifest.owners[1].change -= StateDigest{1, 0};
              }),
              HasSubstr("another change digest"));
  EXPECT_THAT(error_with([](Manifest& manifest) {
                for (ManifestOwner& owner : manifest.owners) owner.change = {};
                manifest.has_digests = false;
              }),
              HasSubstr("disagrees with the manifest on digests"));
  MadeUpDelta one = MakeDelta(1);
  one.payloads[0] = delta.payloads[0];
  one.manifest.owners[0] = delta.manifest.owners[0];
  one.manifest.change_count = one.manifest.owners[0].change_count;
  one.manifest.target = one.manifest.base + one.manifest.owners[0].change;
  ASSERT_TRUE(Write(one, place_ / "one").ok());
  EXPECT_THAT(OpenError(place_ / "one"), HasSubstr("belongs to another owner"));
}

}  // namespace
}  // namespace xorbit
