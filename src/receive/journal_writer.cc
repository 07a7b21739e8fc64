#include "receive/journal_writer.h"

#include "receive/patch_check.h"

namespace xorbit {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 20;

template <typename Record>
ConstBytes BytesOf(const Record& record) {
  static_assert(std::has_unique_object_representations_v<Record>, "no hidden padding may reach the disk");
  return {reinterpret_cast<const uint8_t*>(&record), sizeof(record)};
}

uint64_t HeadBytes(const JournalHead& head) {
  uint64_t byte_count = sizeof(JournalHeadRecord);
  for (const JournalFile& file : head.files) byte_count += sizeof(JournalFileRecord) + PaddedTo8(file.name.size());
  return byte_count;
}

}  // namespace

Result<std::unique_ptr<JournalWriter>> JournalWriter::Create(FileOps& ops, fs::path path, JournalHead head) {
  XORBIT_ASSIGN_OR_RETURN(UniqueFd fd, ops.Create(path, /*exclusive=*/true));
  auto writer = std::unique_ptr<JournalWriter>(new JournalWriter(ops, std::move(path), std::move(head), std::move(fd)));
  writer->AppendHead();
  return writer;
}

JournalWriter::~JournalWriter() {
  // If this fails too, the next run finds the temporary file, knows it for unsealed, and removes it.
  if (!finished_) static_cast<void>(ops_.Unlink(path_));
}

void JournalWriter::AppendHead() {
  JournalHeadRecord record{};
  record.magic = kJournalMagic;
  record.version = kJournalVersion;
  record.delta_identity = head_.identity.delta_identity;
  if (head_.identity.states) {
    record.flags = kJournalHasStateDigests;
    record.base = head_.identity.states->base;
    record.target = head_.identity.states->target;
  }
  record.file_count = static_cast<uint32_t>(head_.files.size());
  record.head_bytes = HeadBytes(head_);
  AppendBytes(buffer_, BytesOf(record));
  for (const JournalFile& file : head_.files) {
    JournalFileRecord file_record{};
    file_record.file_bytes = file.file_bytes;
    file_record.inode = file.inode;
    file_record.header_bytes = file.header_bytes;
    file_record.header_sha256 = file.header_sha256;
    file_record.name_bytes = static_cast<uint32_t>(file.name.size());
    AppendBytes(buffer_, BytesOf(file_record));
    AppendPadded(AsBytes(file.name));
  }
  assert(buffer_.size() == record.head_bytes);
}

void JournalWriter::AppendPadded(ConstBytes bytes) {
  AppendBytes(buffer_, bytes);
  buffer_.resize(PaddedTo8(buffer_.size()));
}

Status JournalWriter::Add(const PatchBlock& block) {
  XORBIT_RETURN_IF_ERROR(CheckPatchBlock(block, head_.files));
  const uint64_t value_bytes = uint64_t{block.count} * block.unit_bytes;
  const std::lock_guard lock(mutex_);
  assert(!finished_);
  if (!status_.ok()) return status_;
  const JournalBlockRecord record{block.file_offset, block.file_index, block.unit_bytes, block.count, 0};
  AppendBytes(buffer_, BytesOf(record));
  AppendPadded({reinterpret_cast<const uint8_t*>(block.positions), uint64_t{block.count} * sizeof(uint16_t)});
  AppendPadded({block.olds, value_bytes});
  AppendPadded({block.xors, value_bytes});
  block_count_ += 1;
  change_count_ += block.count;
  if (buffer_.size() >= kFlushBytes) status_ = Flush();
  return status_;
}

Status JournalWriter::Finish() {
  const std::lock_guard lock(mutex_);
  assert(!finished_);
  XORBIT_RETURN_IF_ERROR(status_);
  JournalTrailerRecord trailer{};
  trailer.magic = kJournalTrailerMagic;
  trailer.block_count = block_count_;
  trailer.change_count = change_count_;
  trailer.journal_bytes = written_bytes_ + buffer_.size() + sizeof(trailer);
  AppendBytes(buffer_, BytesOf(trailer).first(sizeof(trailer) - kJournalUncheckedBytes));
  status_ = Flush();
  XORBIT_RETURN_IF_ERROR(status_);
  const Xxh3Digest digest = hash_.Finish();
  AppendLe(buffer_, digest.low);
  AppendLe(buffer_, digest.high);
  status_ = Flush();
  if (status_.ok()) status_ = ops_.Sync(fd_).WithContext("journal '" + path_.string() + "'");
  finished_ = status_.ok();
  return status_;
}

Status JournalWriter::Flush() {
  hash_.Update(buffer_);
  XORBIT_RETURN_IF_ERROR(ops_.Pwrite(fd_, buffer_, written_bytes_).WithContext("journal '" + path_.string() + "'"));
  written_bytes_ += buffer_.size();
  buffer_.clear();
  return {};
}

}  // namespace xorbit
