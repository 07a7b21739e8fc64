// Prometheus' text format, and the counts that every server has.
#pragma once

#include <string>
#include <string_view>

#include "server/serving_counters.h"
#include "transport/http_message.h"

namespace xorbit {

class MetricsText {
 public:
  // {key="value"}; values are our own words, which need no escapes.
  static std::string Label(std::string_view key, std::string_view value);

  // A metric, and then its values by label.
  void Begin(std::string_view name, std::string_view type, std::string_view help);
  template <typename Number>
  void Add(const std::string& label, Number value) {
    text_ += name_ + label + " " + std::to_string(value) + "\n";
  }
  // A metric with one value.
  template <typename Number>
  void One(std::string_view name, std::string_view type, std::string_view help, Number value) {
    Begin(name, type, help);
    Add("", value);
  }
  // All that was added, which is gone then.
  HttpReply Reply();

 private:
  std::string name_;
  std::string text_;
};

void AddReplies(const ServingCounts& counts, MetricsText* text);

}  // namespace xorbit
