#include "base/stage_timer.h"

namespace xorbit {

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

Stage::~Stage() {
  if (timers_ != nullptr) timers_->Add(name_, watch_.seconds());
}

}  // namespace xorbit
