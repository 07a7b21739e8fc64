#include "tensor/layout_rules.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/text.h"

namespace xorbit {
namespace {

// Calls mark(tensor) for every tensor whose name matches; kUsage if none does.
template <typename Mark>
Status ForEachMatch(std::vector<TensorSpec>& tensors, const std::string& pattern, Mark&& mark) {
  bool matched = false;
  for (TensorSpec& tensor : tensors) {
    if (::fnmatch(pattern.c_str(), tensor.name.c_str(), 0) != 0) continue;
    mark(tensor);
    matched = true;
  }
  if (!matched) return UsageError("the pattern '" + pattern + "' matches no tensor of the checkpoint");
  return {};
}

}  // namespace

Result<Layout> ApplyRules(const Layout& layout, const LayoutRules& rules) {
  std::vector<TensorSpec> tensors = layout.tensors();
  std::vector<std::string> groups = layout.groups();
  for (const LayoutRules::Group& rule : rules.groups) {
    if (!IsValidUtf8(rule.name)) return UsageError("the group name " + Quoted(rule.name) + " is not UTF-8");
    auto at = std::find(groups.begin(), groups.end(), rule.name);
    if (at == groups.end()) at = groups.insert(groups.end(), rule.name);
    const auto index = static_cast<uint32_t>(at - groups.begin());
    XORBIT_RETURN_IF_ERROR(ForEachMatch(tensors, rule.pattern, [&](TensorSpec& tensor) { tensor.group = index; }));
  }
  for (const std::string& pattern : rules.frozen) {
    XORBIT_RETURN_IF_ERROR(ForEachMatch(tensors, pattern, [](TensorSpec& tensor) { tensor.frozen = true; }));
  }
  if (groups.size() > kMaxPresenceGroups) return UsageError("more than 256 presence groups");
  return Layout::Make(std::move(tensors), std::move(groups));
}

}  // namespace xorbit
