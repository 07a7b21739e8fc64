// The journal's bytes, version 1 (docs/formats/journal.md): what writer and reader must agree on, in one place.
//
//   head | file record + name, file_count times | block record + positions + olds + xors, block_count times | trailer
//
// Everything is little-endian and every part is padded with zeros to 8 bytes, so that a mapped journal is read where it lies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/checked_math.h"
#include "base/sha256.h"
#include "change/state_digest.h"

namespace xorbit {

inline constexpr std::array<uint8_t, 8> kJournalMagic = {'x', 'o', 'b', 'j', 'r', 'n', 'l', 0};
inline constexpr std::array<uint8_t, 8> kJournalTrailerMagic = {'x', 'o', 'b', 'j', 'e', 'n', 'd', 0};
inline constexpr uint32_t kJournalVersion = 1;
inline constexpr uint32_t kJournalHasStateDigests = 1;  // flag: base and target digests are known; else those fields are zero
inline constexpr uint32_t kJournalMaxNameBytes = 255;
inline constexpr uint32_t kPatchMaxCount = 65536;
inline constexpr uint32_t kPatchMaxUnitBytes = 8;

struct JournalHeadRecord {
  std::array<uint8_t, 8> magic;
  uint32_t version;
  uint32_t flags;
  std::array<uint8_t, 32> delta_identity;
  StateDigest base;
  StateDigest target;
  uint32_t file_count;
  uint32_t zero;
  uint64_t head_bytes;  // this record and all file records: where blocks begin
};
static_assert(sizeof(JournalHeadRecord) == 96 && offsetof(JournalHeadRecord, delta_identity) == 16);
static_assert(offsetof(JournalHeadRecord, base) == 48 && offsetof(JournalHeadRecord, file_count) == 80);
static_assert(offsetof(JournalHeadRecord, head_bytes) == 88);

struct JournalFileRecord {
  uint64_t file_bytes;
  uint64_t inode;
  uint64_t header_bytes;
  std::array<uint8_t, 32> header_sha256;
  uint32_t name_bytes;
  uint32_t zero;
};
static_assert(sizeof(JournalFileRecord) == 64 && offsetof(JournalFileRecord, header_sha256) == 24);
static_assert(offsetof(JournalFileRecord, name_bytes) == 56);

struct JournalBlockRecord {
  uint64_t file_offset;
  uint32_t file_index;
  uint32_t unit_bytes;
  uint32_t count;
  uint32_t zero;
};
static_assert(sizeof(JournalBlockRecord) == 24 && offsetof(JournalBlockRecord, count) == 16);

struct JournalTrailerRecord {
  std::array<uint8_t, 8> magic;
  uint64_t block_count;
  uint64_t change_count;
  uint64_t journal_bytes;  // of the whole file
  uint64_t xxh3_low;       // XXH3-128 of everything before this field
  uint64_t xxh3_high;
};
static_assert(sizeof(JournalTrailerRecord) == 48 && offsetof(JournalTrailerRecord, xxh3_low) == 32);
inline constexpr uint64_t kJournalUncheckedBytes = sizeof(JournalTrailerRecord) - offsetof(JournalTrailerRecord, xxh3_low);

// One file that a journal changes, as it was when the journal was begun.
struct JournalFile {
  std::string name;  // in the checkpoint's folder
  uint64_t file_bytes = 0;
  uint64_t inode = 0;
  uint64_t header_bytes = 0;  // no change lies before this offset
  Sha256Digest header_sha256{};
};

// What a journal is about; the identities are the caller's and mean nothing to the journal itself.
struct JournalIdentity {
  Sha256Digest delta_identity{};
  struct States {
    StateDigest base;
    StateDigest target;
    friend bool operator==(const States&, const States&) = default;
  };
  std::optional<States> states;

  friend bool operator==(const JournalIdentity&, const JournalIdentity&) = default;
};

struct JournalHead {
  JournalIdentity identity;
  std::vector<JournalFile> files;
};

}  // namespace xorbit
