// Text that came from outside: is it UTF-8, and how to show it in a one-line message without letting it break the line, drive
// the terminal or fill the screen. And numbers as text, where names and formats want a fixed length.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace xorbit {

// Strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
bool IsValidUtf8(std::string_view text);

// `text` as it may be printed whatever it holds, on one line: control characters and bytes that are not UTF-8 become \xNN.
std::string Printable(std::string_view text);

// The same in single quotes, with "..." for all but the first 120 bytes or so of a long text.
std::string Quoted(std::string_view text);

// Lower-case hexadecimal, two digits a byte.
std::string ToHex(ConstBytes bytes);
// The same of a number, most significant digit first: its last `digit_count` digits, 16 at most.
std::string ToHex(uint64_t value, size_t digit_count);
// Fills `bytes` from what ToHex makes of them. False, with `bytes` unspecified, if `text` is anything else.
bool ParseHex(std::string_view text, MutableBytes bytes);

// Decimal, with zeros in front if it has fewer than `digit_count` digits.
std::string ZeroPadded(uint64_t value, size_t digit_count);

}  // namespace xorbit
