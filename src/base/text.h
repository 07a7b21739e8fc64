// Text that came from outside: is it UTF-8, and how to show it in a one-line message without letting it break the line, drive
// the terminal or fill the screen.
#pragma once

#include <string>
#include <string_view>

namespace xorbit {

// Strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
bool IsValidUtf8(std::string_view text);

// `text` in single quotes, safe to print whatever it holds: control characters and bytes that are not UTF-8 become \xNN, and
// all but the first 120 bytes or so of a long text become "...".
std::string Quoted(std::string_view text);

}  // namespace xorbit
