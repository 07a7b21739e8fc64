// Fields that the JSON formats of deltas and stores share, read and written in one way. For .cc files only, like base/json.h.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "payload/manifest.h"

namespace xorbit {

// Parses an object whose "format" and "format_version" are these; `shape` names its other fields. kCorrupt; kUnsupported for
// another version.
Result<Json> ParseDocument(std::string_view text, JsonShape shape, std::string_view format, uint32_t format_version);

// Ids become parts of store keys: 1 to 128 letters, digits, '.', '_' and '-', not beginning with '.'.
bool IsSafeId(std::string_view id);

Result<Sha256Digest> GetSha256(const Json& object, std::string_view key);
Result<StateDigest> GetStateDigest(const Json& object, std::string_view key);
Result<std::string> GetId(const Json& object, std::string_view key);
Result<CodecId> GetCodec(const Json& object, std::string_view key);

// An entry of a manifest's "owners", also in receipts.
JsonShape ManifestOwnerShape();
Result<ManifestOwner> ParseManifestOwner(const Json& json, uint32_t owner_index);
OrderedJson ManifestOwnerJson(const ManifestOwner& owner);

}  // namespace xorbit
