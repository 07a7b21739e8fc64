// Anchors: a version as a whole checkpoint in the store, vNNNNNN/full/<id>/, for receivers that are too far behind or have
// nothing. docs/formats/store.md. The id is made of the files' hashes, so that what a killed publisher left of other files, a
// newer tokenizer's for instance, does not hold the names. (No "weight_v" names: other engines would take the folder for a
// checkpoint of theirs.)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/stream.h"

namespace xorbit {

inline constexpr uint64_t kMaxAnchorBytes = uint64_t{16} << 20;

struct AnchorFile {
  std::string name;  // as IsAnchorFileName says
  uint64_t byte_count = 0;
  Sha256Digest sha256{};
  friend bool operator==(const AnchorFile&, const AnchorFile&) = default;
};

struct Anchor {
  uint64_t version = 0;
  StateDigest state;              // of the version
  std::vector<AnchorFile> files;  // ascending by name
  friend bool operator==(const Anchor&, const Anchor&) = default;
};

std::string WriteAnchor(const Anchor& anchor);  // deterministic
Result<Anchor> ParseAnchor(std::string_view json);

// A name that an anchor's file may have.
bool IsAnchorFileName(std::string_view name);

// A file to store; the bytes may be a mapped file's.
struct AnchorSource {
  std::string name;
  ConstBytes bytes;
};

// Stores the files, then anchor.json, which makes them an anchor. The caller has proven that they hold the version's state.
// kRefused if the version is not committed, or its anchor was given up. May be repeated. What an interrupted call left is in
// nobody's way: other files have another folder.
Status PutAnchor(Stream& stream, uint64_t version, std::span<const AnchorSource> files);
// The same of version 0 of a stream that is to be created with the state `base`: so a stream begins with its anchor.
Status PutFirstAnchor(ObjectStore& store, std::string_view stream_id, const StateDigest& base,
                      std::span<const AnchorSource> files);

// Whether `file`, as in PlacedKey, is an anchor's anchor.json.
bool IsAnchorSeal(std::string_view file);

// The versions that are there as anchors, ascending.
Result<std::vector<uint64_t>> AnchorVersions(Stream& stream);

struct StoredAnchor {
  Anchor anchor;
  std::string folder;  // its files' keys are this and their names
};

// An anchor of a version; of several, all of the version's state, the first by key. kNotFound if there is none (any more).
Result<StoredAnchor> ReadAnchor(Stream& stream, uint64_t version);

}  // namespace xorbit
