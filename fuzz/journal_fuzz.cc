// The journal reader on any bytes. A right checksum is out of reach of a search, so each input is tried twice: as it is, and
// with its trailer made right. What is accepted must stay inside its files, and must come out of a journal writer the same
// again.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include "base/xxh3.h"
#include "receive/journal_reader.h"
#include "receive/journal_writer.h"

namespace xorbit {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void CheckBounds(const PatchBlock& block, const JournalFile& file) {
  Require(block.count > 0 && block.file_offset >= file.header_bytes);
  for (uint32_t i = 0; i < block.count; ++i) {
    const uint64_t begin = block.file_offset + uint64_t{block.positions[i]} * block.unit_bytes;
    Require(begin <= file.file_bytes && file.file_bytes - begin >= block.unit_bytes);
  }
}

// Blocks come back in file order, so the bytes are the same only after a second pass.
Buffer WriteAgain(const Journal& journal) {
  static const fs::path path = fs::temp_directory_path() / ("xorbit-journal-fuzz-" + std::to_string(::getpid()));
  static_cast<void>(::unlink(path.c_str()));
  auto writer = JournalWriter::Create(PosixFileOps(), path, journal.head());
  Require(writer.ok());
  for (uint64_t i = 0; i < journal.block_count(); ++i) Require((*writer)->Add(journal.block(i)).ok());
  Require((*writer)->Finish().ok());
  Result<Buffer> bytes = ReadWholeFile(path, uint64_t{1} << 30);
  Require(bytes.ok());
  static_cast<void>(::unlink(path.c_str()));
  return std::move(*bytes);
}

void TryParse(const Buffer& bytes) {
  const Result<Journal> journal = Journal::Parse(bytes);
  if (!journal.ok()) return;
  for (uint64_t i = 0; i < journal->block_count(); ++i) {
    const PatchBlock block = journal->block(i);
    CheckBounds(block, journal->files()[block.file_index]);
  }
  const Buffer once = WriteAgain(*journal);
  Require(once.size() == bytes.size());
  const Result<Journal> again = Journal::Parse(once);
  Require(again.ok() && WriteAgain(*again) == once);
}

// The journal with the trailer that its length and bytes ask for; counts are left to the search.
void MakeTrailerRight(Buffer& bytes) {
  if (bytes.size() < sizeof(JournalHeadRecord) + sizeof(JournalTrailerRecord)) return;
  uint8_t* trailer = bytes.data() + bytes.size() - sizeof(JournalTrailerRecord);
  std::copy(kJournalTrailerMagic.begin(), kJournalTrailerMagic.end(), trailer);
  StoreLe<uint64_t>(trailer + offsetof(JournalTrailerRecord, journal_bytes), bytes.size());
  const Xxh3Digest digest = Xxh3Of(ConstBytes(bytes).first(bytes.size() - kJournalUncheckedBytes));
  StoreLe(trailer + offsetof(JournalTrailerRecord, xxh3_low), digest.low);
  StoreLe(trailer + offsetof(JournalTrailerRecord, xxh3_high), digest.high);
}

}  // namespace
}  // namespace xorbit

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  xorbit::Buffer bytes(data, data + size);
  xorbit::TryParse(bytes);
  xorbit::MakeTrailerRight(bytes);
  xorbit::TryParse(bytes);
  return 0;
}
