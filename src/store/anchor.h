// Anchors: a version as a whole checkpoint in the store, vNNNNNN/full/, for receivers that are too far behind or have nothing.
// docs/formats/store.md. (No "weight_v" names: other engines would take the folder for a checkpoint of theirs.)
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
// kRefused if the version is not committed, or its anchor was given up; kExists if another anchor is there. May be repeated.
Status PutAnchor(Stream& stream, uint64_t version, std::span<const AnchorSource> files);

// The versions that are there as anchors, ascending.
Result<std::vector<uint64_t>> AnchorVersions(Stream& stream);

// kNotFound if it is not there (any more). Its state is the version's.
Result<Anchor> ReadAnchor(Stream& stream, uint64_t version);

}  // namespace xorbit
