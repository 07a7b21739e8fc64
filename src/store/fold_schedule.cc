#include "store/fold_schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "store/routes.h"

// Level e folds blocks of 2^e versions, aligned. Blocks of 4 and of 16 are enough for any k <= 64 steps in 2 log2 k objects,
// because edges go both ways: 1 -> 6 is 1 -> 0 -> 4 -> 5 -> 6. Each level writes every change again at most once, so these two
// cost less than twice the step bytes even if no change ever cancels. Where changes do cancel, a level costs less and its
// absence costs receivers more; then further levels are written, in the order in which they help, as long as all levels
// together stay below twice the step bytes.

namespace xorbit {
namespace {

constexpr std::array<uint32_t, 2> kAlways = {2, 4};
constexpr std::array<uint32_t, 7> kIfCheap = {1, 6, 3, 5, 8, 10, 12};
constexpr double kWriteBudget = 2.0;  // times the step bytes

class Planner {
 public:
  Planner(std::span<const uint64_t> committed, std::span<const Edge> edges)
      : committed_(committed), edges_(edges.begin(), edges.end()) {
    for (const Edge& edge : edges) {
      const auto [at, is_new] = bytes_.insert({{edge.from, edge.to}, edge.byte_count});
      if (!is_new) at->second = std::min(at->second, edge.byte_count);
    }
  }

  std::vector<uint32_t> Levels() const {
    std::vector<uint32_t> levels(kAlways.begin(), kAlways.end());
    double cost = 0;
    for (const uint32_t level : levels) cost += PredictedCost(level);
    for (const uint32_t level : kIfCheap) {
      const double more = PredictedCost(level);
      if (cost + more > kWriteBudget) continue;
      cost += more;
      levels.push_back(level);
    }
    std::sort(levels.begin(), levels.end());
    return levels;
  }

  // The fold of the block that the newest version closes, if it closes one.
  void PlanLevel(uint32_t level) {
    const uint64_t newest = committed_.back();
    const uint64_t block = committed_[committed_.size() - 2] >> level;
    if (newest >> level == block || committed_.front() > block << level) return;
    PlanFold(*std::lower_bound(committed_.begin(), committed_.end(), block << level));
  }

  // Refreshed when what came since costs as much as its last fold: the new one is at most twice that, so a mark's folds stay
  // below twice the step bytes.
  void PlanMark(uint64_t mark) {
    if (mark >= committed_.back() || !std::binary_search(committed_.begin(), committed_.end(), mark)) return;
    uint64_t last = mark;
    uint64_t last_bytes = 0;
    for (const auto& [ends, byte_count] : bytes_) {
      if (ends.first == mark && ends.second > last) std::tie(last, last_bytes) = std::make_pair(ends.second, byte_count);
    }
    const auto since = CheapestRoute(edges_, last, committed_.back());
    if (since && ByteCountOf(*since) >= last_bytes) PlanFold(mark);
  }

  std::vector<PlannedFold> Take() { return std::move(folds_); }

 private:
  // What a level writes, as a multiple of the step bytes, from the newest block of 4 or 16 whose steps are known: overlap is
  // taken to grow alike with each doubling.
  double PredictedCost(uint32_t level) const {
    const uint32_t measured = level <= 3 ? 2 : 4;
    for (auto at = bytes_.rbegin(); at != bytes_.rend(); ++at) {
      const auto [from, to] = at->first;
      if (to >> measured != (from >> measured) + 1 || from % (uint64_t{1} << measured) != 0) continue;
      const auto step_bytes = StepBytes(from, to);
      if (!step_bytes || *step_bytes == 0) continue;
      const double cost = std::min(1.0, static_cast<double>(at->second) / static_cast<double>(*step_bytes));
      return std::pow(cost, static_cast<double>(level) / measured);
    }
    return 1.0;
  }

  std::optional<uint64_t> StepBytes(uint64_t from, uint64_t to) const {
    uint64_t sum = 0;
    auto at = std::lower_bound(committed_.begin(), committed_.end(), from);
    for (; at != committed_.end() && *at < to; ++at) {
      const auto next = std::next(at);
      if (next == committed_.end()) return std::nullopt;
      const auto step = bytes_.find({*at, *next});
      if (step == bytes_.end()) return std::nullopt;
      sum += step->second;
    }
    return sum;
  }

  void PlanFold(uint64_t from) {
    const uint64_t to = committed_.back();
    if (bytes_.contains({from, to})) return;
    auto chain = CheapestRoute(edges_, from, to);
    if (!chain || chain->size() < 2) return;
    const uint64_t at_most = ByteCountOf(*chain);
    edges_.push_back({from, to, std::string(kFoldPublicationId), at_most, ""});
    bytes_[{from, to}] = at_most;
    folds_.push_back({from, to, std::move(*chain)});
  }

  std::span<const uint64_t> committed_;
  std::vector<Edge> edges_;                                  // at hand, then planned
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> bytes_;  // of the cheapest edge between two versions
  std::vector<PlannedFold> folds_;
};

}  // namespace

std::vector<PlannedFold> PlanFolds(std::span<const uint64_t> committed, std::span<const Edge> edges,
                                   std::span<const uint64_t> marks) {
  if (committed.size() < 2) return {};
  Planner planner(committed, edges);
  for (const uint32_t level : planner.Levels()) planner.PlanLevel(level);
  for (const uint64_t mark : marks) planner.PlanMark(mark);
  return planner.Take();
}

}  // namespace xorbit
