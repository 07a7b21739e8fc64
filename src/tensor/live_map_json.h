// A live map as a file (docs/formats/live-map.md): what an engine hands to whoever updates its weights. The reader trusts
// nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tensor/live_map.h"

namespace xorbit {

inline constexpr uint32_t kLiveMapFormatVersion = 1;
inline constexpr uint64_t kMaxLiveMapBytes = uint64_t{256} << 20;

// Deterministic: equal maps, equal bytes. `map` must be of `layout`.
std::string WriteLiveMapJson(const Layout& layout, const LiveMap& map);

// The map, if it is one of `layout`. kCorrupt: more than kMaxLiveMapBytes, malformed, mistyped or missing fields, rows of
// another length, unknown presence groups, and everything that LiveMap::Make refuses. kRefused: of another layout.
// kUnsupported: another format version, an unknown cast or critical field. Memory is bounded by a small multiple of the text.
Result<LiveMap> ParseLiveMapJson(std::string_view text, const Layout& layout);

}  // namespace xorbit
