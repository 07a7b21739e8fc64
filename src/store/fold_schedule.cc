#include "store/fold_schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "store/routes.h"

// A level folds aligned blocks of so many versions. Blocks of 3 and of 12 are enough for any k <= 64 steps in 2 log2 k objects,
// to the newest version too, because edges go both ways: 1 -> 6 is 1 -> 0 -> 3 -> 6. Each level writes every change again at
// most once, so these two cost less than twice the step bytes even if no change ever cancels. (No two levels of plain powers of
// two are enough: found by trying all pairs up to 64.) Where changes do cancel, a level costs less and its absence costs
// receivers more; then further levels are written, each twice the one before, as long as all together stay below twice the step
// bytes.

namespace xorbit {
namespace {

constexpr uint64_t kSmallBlock = 3;
constexpr uint64_t kLargeBlock = 12;
constexpr uint64_t kIfCheap[] = {6, 24, 48, 96, 192, 384, 768};
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

  // Their block sizes, ascending.
  std::vector<uint64_t> Levels() const {
    std::vector<uint64_t> levels = {kSmallBlock, kLargeBlock};
    double cost = PredictedCost(kSmallBlock) + PredictedCost(kLargeBlock);
    for (const uint64_t block : kIfCheap) {
      const double more = PredictedCost(block);
      if (cost + more > kWriteBudget) continue;
      cost += more;
      levels.push_back(block);
    }
    std::sort(levels.begin(), levels.end());
    return levels;
  }

  // The fold of the block that the newest version closes, if it closes one.
  void PlanLevel(uint64_t block) {
    const uint64_t newest = committed_.back();
    const uint64_t begin = committed_[committed_.size() - 2] / block * block;
    if (newest / block * block == begin || committed_.front() > begin) return;
    PlanFold(*std::lower_bound(committed_.begin(), committed_.end(), begin));
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
  // What a level writes, as a multiple of the step bytes, judged by the newest block of 12, else of 3, that was folded: overlap
  // is taken to grow alike with each doubling.
  double PredictedCost(uint64_t block) const {
    for (const uint64_t measured : {kLargeBlock, kSmallBlock}) {
      for (auto at = bytes_.rbegin(); at != bytes_.rend(); ++at) {
        const auto [from, to] = at->first;
        if (to - from != measured || from % measured != 0) continue;
        const auto step_bytes = StepBytes(from, to);
        if (!step_bytes || *step_bytes == 0) continue;
        const double cost = std::min(1.0, static_cast<double>(at->second) / static_cast<double>(*step_bytes));
        return std::pow(cost, std::log(static_cast<double>(block)) / std::log(static_cast<double>(measured)));
      }
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
  // Folds to the newest version, which ranks may be writing right now, do not count: a rank that asks later would plan others,
  // and they would wait for each other.
  std::vector<Edge> settled;
  std::set<uint64_t> there;  // where such folds begin
  for (const Edge& edge : edges) {
    if (edge.to == committed.back() && edge.publication_id == kFoldPublicationId) {
      there.insert(edge.from);
    } else {
      settled.push_back(edge);
    }
  }
  Planner planner(committed, settled);
  for (const uint64_t level : planner.Levels()) planner.PlanLevel(level);
  for (const uint64_t mark : marks) planner.PlanMark(mark);
  std::vector<PlannedFold> folds = planner.Take();
  std::erase_if(folds, [&](const PlannedFold& fold) { return there.contains(fold.from); });
  return folds;
}

}  // namespace xorbit
