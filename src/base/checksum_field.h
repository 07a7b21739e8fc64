// A checksum as the last field of a JSON text. Layouts, the objects of stores and cohorts, and identities beside checkpoints
// decide for everybody, and processes remember what they read: one bit that was read wrongly, and still makes a number, would
// be acted upon for good.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace xorbit {

// `text` is an object with at least one field, as DumpJson writes it, and a newline. The same with a last field "checksum": 16
// hex digits, the 64-bit XXH3 of all that stands before its comma. Parsers pass over it as a field that they do not know.
std::string WithChecksum(std::string text);
// kCorrupt unless WithChecksum wrote it. Says nothing about what is in it.
Status CheckChecksum(std::string_view text);

}  // namespace xorbit
