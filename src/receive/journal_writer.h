// Writes a journal: old value and XOR of every element that shall change, in a file of its own, before any of them is touched.
#pragma once

#include <memory>
#include <mutex>

#include "base/file.h"
#include "base/xxh3.h"
#include "receive/journal_format.h"
#include "receive/patch.h"

namespace xorbit {

// A journal being written under a temporary name. Add() is thread-safe: the order of blocks has no meaning. Memory: one buffer
// of about a MiB, however many blocks. The first error sticks, so that nothing incomplete can be finished. Destruction removes
// the temporary file unless Finish() succeeded; from then on it is the caller's.
class JournalWriter final : public PatchSink {
 public:
  // Creates `path`, which must not exist. `ops` must outlive the writer.
  static Result<std::unique_ptr<JournalWriter>> Create(FileOps& ops, fs::path path, JournalHead head);
  ~JournalWriter() override;

  // kCorrupt for a block outside the files; kIo, for example on a full disk.
  Status Add(const PatchBlock& block) override;

  // Writes the trailer and fsyncs the file. No Add() may follow or run meanwhile.
  Status Finish();

  const fs::path& path() const { return path_; }
  const std::vector<JournalFile>& files() const { return head_.files; }
  uint64_t change_count() const { return change_count_; }

 private:
  JournalWriter(FileOps& ops, fs::path path, JournalHead head, UniqueFd fd)
      : ops_(ops), path_(std::move(path)), head_(std::move(head)), fd_(std::move(fd)) {}
  void AppendHead();
  void AppendPadded(ConstBytes bytes);
  Status Flush();

  FileOps& ops_;
  const fs::path path_;
  const JournalHead head_;
  const UniqueFd fd_;

  std::mutex mutex_;  // guards everything below
  Buffer buffer_;     // appended, not yet written
  Xxh3 hash_;
  uint64_t written_bytes_ = 0;
  uint64_t block_count_ = 0;
  uint64_t change_count_ = 0;
  Status status_;
  bool finished_ = false;
};

}  // namespace xorbit
