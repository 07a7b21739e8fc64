#include "base/text.h"

#include <algorithm>

namespace xorbit {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

// Length of the well-formed UTF-8 sequence at the front of `text`, which must not be empty; 0 if there is none.
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (first == 0xe0 && byte(1) < 0xa0) return 0;   // overlong
  if (first == 0xed && byte(1) >= 0xa0) return 0;  // surrogate
  if (first == 0xf0 && byte(1) < 0x90) return 0;   // overlong
  if (first == 0xf4 && byte(1) >= 0x90) return 0;  // above U+10FFFF
  return length;
}

// Terminals obey C0 (below 0x20), DEL and C1 (U+0080 to U+009F, 0xc2 0x80..0x9f in UTF-8).
bool IsControl(std::string_view sequence) {
  const auto first = static_cast<uint8_t>(sequence[0]);
  return first < 0x20 || first == 0x7f || (first == 0xc2 && static_cast<uint8_t>(sequence[1]) < 0xa0);
}

// Moves the first character of `text` to the end of `printable`.
void AppendPrintable(std::string_view* text, std::string* printable) {
  const size_t length = SequenceLength(*text);
  const std::string_view sequence = text->substr(0, length == 0 ? 1 : length);
  if (length != 0 && !IsControl(sequence)) {
    *printable += sequence;
  } else {
    for (size_t i = 0; i < sequence.size(); ++i) *printable += "\\x" + ToHex(AsBytes(sequence.substr(i, 1)));
  }
  text->remove_prefix(sequence.size());
}

}  // namespace

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string Printable(std::string_view text) {
  std::string printable;
  while (!text.empty()) AppendPrintable(&text, &printable);
  return printable;
}

std::string Quoted(std::string_view text) {
  constexpr size_t kShownBytes = 120;
  std::string quoted = "'";
  while (!text.empty()) {
    if (quoted.size() > kShownBytes) return quoted + "...'";
    AppendPrintable(&text, &quoted);
  }
  return quoted + "'";
}

std::string ToHex(ConstBytes bytes) {
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const uint8_t byte : bytes) hex += {kHexDigits[byte >> 4], kHexDigits[byte & 15]};
  return hex;
}

std::string ToHex(uint64_t value, size_t digit_count) {
  std::string hex(digit_count, '0');
  for (size_t i = digit_count; i-- > 0; value >>= 4) hex[i] = kHexDigits[value & 15];
  return hex;
}

bool ParseHex(std::string_view text, MutableBytes bytes) {
  if (text.size() != bytes.size() * 2) return false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t high = kHexDigits.find(text[2 * i]);
    const size_t low = kHexDigits.find(text[2 * i + 1]);
    if (high == kHexDigits.npos || low == kHexDigits.npos) return false;
    bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

std::string ZeroPadded(uint64_t value, size_t digit_count) {
  const std::string digits = std::to_string(value);
  return std::string(digit_count - std::min(digits.size(), digit_count), '0') + digits;
}

}  // namespace xorbit
