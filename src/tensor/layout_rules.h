// Policy over a layout: which tensors a receiver has or lacks together (presence groups), and which no update may touch
// (frozen).
#pragma once

#include <string>
#include <vector>

#include "tensor/layout.h"

namespace xorbit {

// Patterns are shell globs over tensor names (fnmatch(3): *, ?, [...]); later rules win.
inline constexpr size_t kMaxPresenceGroups = 256;  // what a layout file may hold

struct LayoutRules {
  struct Group {
    std::string name;
    std::string pattern;
  };
  std::vector<Group> groups;  // tensors that match no group are in "model"
  std::vector<std::string> frozen;
};

// The same tensors under these rules. kUsage, naming the pattern, if one matches no tensor.
Result<Layout> ApplyRules(const Layout& layout, const LayoutRules& rules);

}  // namespace xorbit
