// The small JSON objects of stores and cohorts, put and got with a checksum (base/checksum_field.h).
#pragma once

#include <string>
#include <string_view>

#include "transport/object_store.h"

namespace xorbit {

// Creates the object with a checksum; otherwise as ObjectStore::PutNew.
Status PutText(ObjectStore& store, std::string_view key, std::string text);
// The object's text, its checksum included. kNotFound; kCorrupt, with the key.
Result<std::string> GetText(ObjectStore& store, std::string_view key, uint64_t limit_bytes);

}  // namespace xorbit
