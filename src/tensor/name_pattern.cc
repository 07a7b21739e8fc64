#include "tensor/name_pattern.h"

#include <algorithm>

namespace xorbit {
namespace {

// Tries every length of a star, shortest first. Depth is the number of stars, not the length of the name.
bool Match(std::string_view pattern, std::string_view name, std::vector<std::string_view>* captures) {
  const size_t literal = std::min(pattern.find('*'), pattern.size());
  if (pattern.substr(0, literal) != name.substr(0, literal)) return false;
  pattern.remove_prefix(literal);
  name.remove_prefix(literal);
  if (pattern.empty()) return name.empty();
  const bool any = pattern.substr(0, 2) == "**";
  pattern.remove_prefix(any ? 2 : 1);
  const size_t most = any ? name.size() : std::min(name.find('.'), name.size());
  for (size_t length = any ? 0 : 1; length <= most; ++length) {
    captures->push_back(name.substr(0, length));
    if (Match(pattern, name.substr(length), captures)) return true;
    captures->pop_back();
  }
  return false;
}

}  // namespace

std::optional<std::vector<std::string_view>> MatchName(std::string_view pattern, std::string_view name) {
  std::vector<std::string_view> captures;
  if (!Match(pattern, name, &captures)) return std::nullopt;
  return captures;
}

Result<std::string> FillIn(std::string_view text, const std::vector<std::string_view>& captures) {
  std::string filled;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$' || i + 1 == text.size() || text[i + 1] < '1' || text[i + 1] > '9') {
      filled += text[i];
      continue;
    }
    const auto capture = static_cast<size_t>(text[++i] - '1');
    if (capture >= captures.size()) {
      return UsageError("'" + std::string(text) + "' asks for a capture that its pattern does not have");
    }
    filled += captures[capture];
  }
  return filled;
}

}  // namespace xorbit
