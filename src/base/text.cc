#include "base/text.h"

#include <array>
#include <cstdint>

namespace xorbit {
namespace {

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

}  // namespace

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string Quoted(std::string_view text) {
  constexpr size_t kShownBytes = 120;
  static constexpr std::array kDigits = {'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};
  std::string quoted = "'";
  while (!text.empty()) {
    if (quoted.size() > kShownBytes) return quoted + "...'";
    const size_t length = SequenceLength(text);
    const std::string_view sequence = text.substr(0, length == 0 ? 1 : length);
    if (length != 0 && !IsControl(sequence)) {
      quoted += sequence;
    } else {
      for (const char c : sequence) {
        const auto byte = static_cast<uint8_t>(c);
        quoted += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
      }
    }
    text.remove_prefix(sequence.size());
  }
  return quoted + "'";
}

}  // namespace xorbit
