#include "base/stage_timer.h"

#include <atomic>

namespace xorbit {
namespace {

std::atomic<StageObserver*> stage_observer{nullptr};

}  // namespace

void SetStageObserver(StageObserver* observer) { stage_observer.store(observer, std::memory_order_release); }

void StageTimers::Add(std::string_view name, double seconds) {
  for (Entry& entry : entries_) {
    if (entry.name == name) {
      entry.seconds += seconds;
      return;
    }
  }
  entries_.push_back({std::string(name), seconds});
}

double StageTimers::TotalSeconds() const {
  double total = 0;
  for (const Entry& entry : entries_) total += entry.seconds;
  return total;
}

Stage::Stage(StageTimers* timers, std::string_view name)
    : timers_(timers), name_(name), observer_(stage_observer.load(std::memory_order_acquire)) {
  if (observer_ != nullptr) observer_->Begin(name_);
}

Stage::~Stage() {
  if (observer_ != nullptr) observer_->End(name_);
  if (timers_ != nullptr) timers_->Add(name_, watch_.seconds());
}

}  // namespace xorbit
