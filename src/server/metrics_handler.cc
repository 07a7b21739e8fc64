// /metrics, in Prometheus' text format.
#include <map>

#include "server/handlers.h"
#include "server/metrics_text.h"

namespace xorbit {
namespace {

void AddStanding(SamplerSession& session, MetricsText* text) {
  const SessionReceipt receipt = session.receipt();
  text->One("xorbit_applied_version", "gauge", "The version that is served.", receipt.applied_version);
  if (const Result<uint64_t> newest = session.Newest(); newest.ok()) {
    const uint64_t lag = *newest > receipt.applied_version ? *newest - receipt.applied_version : 0;
    text->One("xorbit_version_lag", "gauge", "How many versions newer the newest one is.", lag);
  }
  text->One("xorbit_ready", "gauge", "1 once the sampler has caught up.", session.Readiness().ok() ? 1 : 0);
  text->One("xorbit_paused", "gauge", "1 while the gate in front of the weights is closed.", session.is_paused() ? 1 : 0);
  text->One("xorbit_staged_bytes", "gauge", "Of the last update: payloads and what waited beside them.",
            session.counters().counts().staged_bytes);
  text->Begin("xorbit_session_state", "gauge", "1 for the state that the session is in.");
  text->Add(MetricsText::Label("state", NameOf(receipt.state)), 1);
}

void AddUpdates(SamplerSession& session, const ServingCounts& counts, MetricsText* text) {
  const auto follower = session.follower_status();
  text->Begin("xorbit_updates_total", "counter", "Updates by what came of them.");
  text->Add(MetricsText::Label("result", "applied"), follower ? follower->applied_count : counts.applied_count);
  text->Add(MetricsText::Label("result", "failed"), follower ? follower->failed_count : counts.failed_count);
  if (follower) {
    text->One("xorbit_longest_pause_seconds", "gauge", "The longest pause of all updates.", follower->longest_pause_seconds);
  }
  text->One("xorbit_fetched_bytes_total", "counter", "Bytes of manifests and payloads.", counts.fetched_bytes);
  if (const HostCacheCounts* fetched = session.options().host_fetched; fetched != nullptr) {
    text->One("xorbit_host_cache_fetched_bytes_total", "counter",
              "Bytes of payloads that this server fetched for all of its host.", fetched->bytes.load());
  }
  text->One("xorbit_changed_elements_total", "counter", "Elements that updates have changed.", counts.change_count);
  text->One("xorbit_pause_seconds_total", "counter", "Time for which the receiver had the engine paused.",
            counts.pause_seconds);
  std::map<std::string, double> phases = counts.phase_seconds;
  if (session.options().engine != nullptr) {
    for (const auto& [phase, seconds] : session.options().engine->phase_seconds()) phases[phase] += seconds;
  }
  text->Begin("xorbit_pause_phase_seconds_total", "counter",
              "By phase: the engine told, its readers gone, its cache flushed, applied and checked, told to go on.");
  for (const std::string phase : {"gate", "fence", "flush", "apply", "check", "resume"}) {
    text->Add(MetricsText::Label("phase", phase), phases[phase]);
  }
}

}  // namespace

HttpReply HandleMetrics(SamplerSession& session, const ControlFields& /*fields*/) {
  MetricsText text;
  const ServingCounts counts = session.counters().counts();
  AddStanding(session, &text);
  AddUpdates(session, counts, &text);
  AddReplies(counts, &text);
  return text.Reply();
}

}  // namespace xorbit
