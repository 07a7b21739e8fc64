// tombstones/000001.json, ...: what a stream no longer offers, decided in order like versions. docs/formats/store.md.
//
// Which deltas may go depends on which stay, so two collectors with different views could between them remove every way to the
// newest version. Hence one numbered, create-only list: whoever writes entry n has planned with the entries before it. What is
// listed is dead for good; its objects go once the entry is as old as the grace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/store_keys.h"

namespace xorbit {

inline constexpr uint64_t kMaxTombstoneBytes = uint64_t{64} << 20;

struct Tombstones {
  uint64_t number = 0;                   // from 1
  std::vector<PublicationPlace> places;  // ascending
  std::vector<uint64_t> anchors;         // versions, ascending
  friend bool operator==(const Tombstones&, const Tombstones&) = default;
};

std::string WriteTombstones(const Tombstones& tombstones);  // deterministic
Result<Tombstones> ParseTombstones(std::string_view json);

}  // namespace xorbit
