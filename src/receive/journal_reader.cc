#include "receive/journal_reader.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/xxh3.h"
#include "receive/patch_check.h"

namespace xorbit {
namespace {

template <typename Record>
Record LoadRecord(ConstBytes bytes, uint64_t at) {
  assert(at + sizeof(Record) <= bytes.size());
  Record record;
  std::memcpy(&record, bytes.data() + at, sizeof(record));
  return record;
}

// The trailer, once size, magic and checksum of the whole are right.
Result<JournalTrailerRecord> CheckWhole(ConstBytes bytes) {
  if (bytes.size() < sizeof(JournalHeadRecord) + sizeof(JournalTrailerRecord)) return CorruptError("the journal is cut short");
  const auto trailer = LoadRecord<JournalTrailerRecord>(bytes, bytes.size() - sizeof(JournalTrailerRecord));
  if (trailer.magic != kJournalTrailerMagic || trailer.journal_bytes != bytes.size()) {
    return CorruptError("the journal is cut short");
  }
  const Xxh3Digest digest = Xxh3Of(bytes.first(bytes.size() - kJournalUncheckedBytes));
  if (digest != Xxh3Digest{trailer.xxh3_low, trailer.xxh3_high}) return CorruptError("the journal's checksum does not match");
  return trailer;
}

// Names are joined to the checkpoint's folder and opened for writing: nothing may lead out of it.
Status CheckName(std::string_view name) {
  const bool plain =
      !name.empty() && name != "." && name != ".." && name.find('/') == name.npos && name.find('\0') == name.npos;
  return plain ? Status() : CorruptError("the journal has a file name that is no plain name");
}

Result<JournalFile> ParseFile(ByteReader& reader) {
  XORBIT_ASSIGN_OR_RETURN(const ConstBytes record_bytes, reader.ReadBytes(sizeof(JournalFileRecord), "journal file record"));
  const auto record = LoadRecord<JournalFileRecord>(record_bytes, 0);
  if (record.name_bytes > kJournalMaxNameBytes || record.zero != 0 || record.header_bytes > record.file_bytes) {
    return CorruptError("the journal has a file record that makes no sense");
  }
  XORBIT_ASSIGN_OR_RETURN(const ConstBytes name, reader.ReadBytes(PaddedTo8(record.name_bytes), "journal file name"));
  if (!IsAllZero(name.subspan(record.name_bytes))) return CorruptError("the journal has padding that is not zero");
  JournalFile file;
  file.name = AsText(name.first(record.name_bytes));
  XORBIT_RETURN_IF_ERROR(CheckName(file.name));
  file.file_bytes = record.file_bytes;
  file.inode = record.inode;
  file.header_bytes = record.header_bytes;
  file.header_sha256 = record.header_sha256;
  return file;
}

// Where the parts of a block lie, from the block record's offset.
struct BlockParts {
  explicit BlockParts(const JournalBlockRecord& record)
      : position_bytes(uint64_t{record.count} * sizeof(uint16_t)), value_bytes(uint64_t{record.count} * record.unit_bytes) {}

  uint64_t position_bytes;
  uint64_t value_bytes;
  uint64_t olds_at() const { return sizeof(JournalBlockRecord) + PaddedTo8(position_bytes); }
  uint64_t xors_at() const { return olds_at() + PaddedTo8(value_bytes); }
  uint64_t total_bytes() const { return xors_at() + PaddedTo8(value_bytes); }

  bool PaddingIsZero(ConstBytes block) const {
    return IsAllZero(block.subspan(sizeof(JournalBlockRecord) + position_bytes, PaddedTo8(position_bytes) - position_bytes)) &&
           IsAllZero(block.subspan(olds_at() + value_bytes, PaddedTo8(value_bytes) - value_bytes)) &&
           IsAllZero(block.subspan(xors_at() + value_bytes, PaddedTo8(value_bytes) - value_bytes));
  }
};

}  // namespace

Result<Journal> Journal::Parse(ConstBytes bytes) {
  assert(reinterpret_cast<uintptr_t>(bytes.data()) % 8 == 0);
  XORBIT_ASSIGN_OR_RETURN(const JournalTrailerRecord trailer, CheckWhole(bytes));
  Journal journal;
  journal.bytes_ = bytes.first(bytes.size() - sizeof(JournalTrailerRecord));
  XORBIT_RETURN_IF_ERROR(journal.ParseHead());
  XORBIT_RETURN_IF_ERROR(journal.ParseBlocks(LoadRecord<JournalHeadRecord>(bytes, 0).head_bytes, trailer));
  return journal;
}

Status Journal::ParseHead() {
  const auto record = LoadRecord<JournalHeadRecord>(bytes_, 0);
  if (record.magic != kJournalMagic) return CorruptError("this is no journal");
  if (record.version != kJournalVersion) {
    return UnsupportedError("the journal has version " + std::to_string(record.version) + "; this xorbit reads version " +
                            std::to_string(kJournalVersion) + ", finish with the xorbit that wrote it");
  }
  if (record.flags > kJournalHasStateDigests || record.zero != 0) return CorruptError("the journal's head makes no sense");
  head_.identity.delta_identity = record.delta_identity;
  if (record.flags == kJournalHasStateDigests) {
    head_.identity.states = {record.base, record.target};
  } else if (record.base != StateDigest{} || record.target != StateDigest{}) {
    return CorruptError("the journal's head makes no sense");
  }
  ByteReader reader(bytes_.subspan(sizeof(record)));
  std::set<std::string_view> names;
  for (uint32_t i = 0; i < record.file_count; ++i) {
    XORBIT_ASSIGN_OR_RETURN(JournalFile file, ParseFile(reader));
    head_.files.push_back(std::move(file));
  }
  for (const JournalFile& file : head_.files) {
    if (!names.insert(file.name).second) return CorruptError("the journal names '" + file.name + "' twice");
  }
  if (record.head_bytes != sizeof(record) + reader.position()) return CorruptError("the journal's head has a wrong length");
  return {};
}

Status Journal::ParseBlocks(uint64_t begin, const JournalTrailerRecord& trailer) {
  for (uint64_t at = begin; at < bytes_.size();) {
    const ConstBytes rest = bytes_.subspan(at);
    if (rest.size() < sizeof(JournalBlockRecord)) return CorruptError("the journal's last block is cut short");
    const auto record = LoadRecord<JournalBlockRecord>(rest, 0);
    // Bounds of the record's own parts first, then the patch that they hold.
    const bool legal = record.zero == 0 && record.count <= kPatchMaxCount && record.unit_bytes <= kPatchMaxUnitBytes;
    const BlockParts parts(record);
    if (!legal || parts.total_bytes() > rest.size()) return CorruptError("the journal has a block that makes no sense");
    const PatchBlock block = BlockAt(at);
    XORBIT_RETURN_IF_ERROR(CheckPatchBlock(block, head_.files));
    if (!parts.PaddingIsZero(rest)) return CorruptError("the journal has padding that is not zero");
    blocks_.push_back({PatchBegin(block), at, block.file_index});
    change_count_ += block.count;
    at += parts.total_bytes();
  }
  if (blocks_.size() != trailer.block_count || change_count_ != trailer.change_count) {
    return CorruptError("the journal's counts do not match its blocks");
  }
  std::sort(blocks_.begin(), blocks_.end(), [](const BlockPlace& a, const BlockPlace& b) {
    return std::tie(a.file_index, a.begin, a.journal_offset) < std::tie(b.file_index, b.begin, b.journal_offset);
  });
  return {};
}

PatchBlock Journal::BlockAt(uint64_t journal_offset) const {
  const auto record = LoadRecord<JournalBlockRecord>(bytes_, journal_offset);
  const BlockParts parts(record);
  const uint8_t* start = bytes_.data() + journal_offset;
  PatchBlock block;
  block.file_index = record.file_index;
  block.unit_bytes = record.unit_bytes;
  block.file_offset = record.file_offset;
  block.count = record.count;
  block.positions = reinterpret_cast<const uint16_t*>(start + sizeof(record));
  block.olds = start + parts.olds_at();
  block.xors = start + parts.xors_at();
  return block;
}

}  // namespace xorbit
