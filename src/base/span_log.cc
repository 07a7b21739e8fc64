#include "base/span_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace xorbit {
namespace {

// Where `value` stands in `values`, which it is added to if it is new; and whether it was.
template <typename Value>
std::pair<size_t, bool> IndexOf(const Value& value, std::vector<Value>* values) {
  const auto found = std::ranges::find(*values, value);
  const auto index = static_cast<size_t>(found - values->begin());
  if (found != values->end()) return {index, false};
  values->push_back(value);
  return {index, true};
}

}  // namespace

void SpanLog::Add(TimedSpan span) {
  const std::lock_guard lock(mutex_);
  spans_.push_back(std::move(span));
}

std::vector<TimedSpan> SpanLog::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

std::string ChromeTraceOf(std::span<const TimedSpan> spans) {
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  int64_t origin_ns = spans.empty() ? 0 : spans.front().begin_ns;
  for (const TimedSpan& span : spans) origin_ns = std::min(origin_ns, span.begin_ns);
  std::vector<std::string> processes;
  std::vector<std::pair<std::string, std::string>> rows;
  for (const TimedSpan& span : spans) {
    const auto [pid, is_new_process] = IndexOf(span.process, &processes);
    const auto [tid, is_new_row] = IndexOf({span.process, span.row}, &rows);
    if (is_new_process) {
      events.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", pid}, {"args", {{"name", span.process}}}});
    }
    if (is_new_row) {
      events.push_back({{"ph", "M"}, {"name", "thread_name"}, {"pid", pid}, {"tid", tid}, {"args", {{"name", span.row}}}});
    }
    events.push_back({{"ph", "X"},
                      {"name", span.name},
                      {"pid", pid},
                      {"tid", tid},
                      {"ts", static_cast<double>(span.begin_ns - origin_ns) / 1e3},
                      {"dur", static_cast<double>(span.end_ns - span.begin_ns) / 1e3}});
  }
  return nlohmann::ordered_json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump();
}

}  // namespace xorbit
