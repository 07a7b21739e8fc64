#include "server/metrics_text.h"

#include <utility>

namespace xorbit {

std::string MetricsText::Label(std::string_view key, std::string_view value) {
  return "{" + std::string(key) + "=\"" + std::string(value) + "\"}";
}

void MetricsText::Begin(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_ += "# HELP " + name_ + " " + std::string(help) + "\n# TYPE " + name_ + " " + std::string(type) + "\n";
}

HttpReply MetricsText::Reply() {
  HttpReply reply;
  reply.content_type = "text/plain; version=0.0.4";
  reply.body = std::exchange(text_, {});
  return reply;
}

void AddReplies(const ServingCounts& counts, MetricsText* text) {
  text->Begin("xorbit_replies_total", "counter", "Replies by HTTP status.");
  for (const auto& [status, count] : counts.replies) text->Add(MetricsText::Label("status", std::to_string(status)), count);
  text->Begin("xorbit_refusals_total", "counter", "Requests that were refused, by reason.");
  for (const auto& [reason, count] : counts.refusals) text->Add(MetricsText::Label("reason", reason), count);
}

}  // namespace xorbit
