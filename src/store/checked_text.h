// The small JSON objects of stores and cohorts, with a checksum as their last field. They decide for everybody, and processes
// remember what they read: one bit that was read wrongly, and still makes a number, would be acted upon for good.
#pragma once

#include <string>
#include <string_view>

#include "transport/object_store.h"

namespace xorbit {

// `text` is an object with at least one field, as DumpJson writes it, and a newline. The same with a last field "checksum": 16
// hex digits, the 64-bit XXH3 of all that stands before its comma.
std::string WithChecksum(std::string text);
// kCorrupt unless WithChecksum wrote it. Says nothing about what is in it.
Status CheckChecksum(std::string_view text);

// Creates the object with a checksum; otherwise as ObjectStore::PutNew.
Status PutText(ObjectStore& store, std::string_view key, std::string text);
// The object's text, its checksum included, which parsers pass over as a field that they do not know. kNotFound; kCorrupt, with
// the key.
Result<std::string> GetText(ObjectStore& store, std::string_view key, uint64_t limit_bytes);

}  // namespace xorbit
