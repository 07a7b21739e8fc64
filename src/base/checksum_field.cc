#include "base/checksum_field.h"

#include <algorithm>
#include <cassert>

#include "base/text.h"
#include "base/xxh3.h"

namespace xorbit {
namespace {

constexpr std::string_view kEnd = "}\n";

std::string FieldOf(std::string_view before) {
  return ",\"checksum\":\"" + ToHex(Xxh3Hash64Of(AsBytes(before)), 16) + "\"" + std::string(kEnd);
}

}  // namespace

std::string WithChecksum(std::string text) {
  assert(text.ends_with(kEnd));
  text.resize(text.size() - kEnd.size());
  text += FieldOf(text);
  return text;
}

Status CheckChecksum(std::string_view text) {
  const size_t length = FieldOf("").size();
  const std::string_view before = text.substr(0, text.size() - std::min(text.size(), length));
  if (text == std::string(before) + FieldOf(before)) return {};
  return CorruptError("its checksum is missing or wrong: it was damaged or read wrongly; try again, or restore it");
}

}  // namespace xorbit
