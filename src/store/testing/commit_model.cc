#include "store/testing/commit_model.h"

#include <algorithm>
#include <utility>

#include "store/testing/commit_machine.h"

namespace xorbit {
namespace {

// A state in 16 bytes, exactly.
struct Key {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const Key&, const Key&) = default;
};

// Visits every field with its width in bits, in one order for packing and unpacking.
template <typename State, typename Visit>
void VisitFields(State& state, const Visit& visit) {
  for (auto& ranks : state.ranks) {
    for (auto& rank : ranks) {
      visit(rank.step, 3);
      visit(rank.target, 1);
      visit(rank.baseline, 2);
      visit(rank.lost, 2);
    }
  }
  for (auto& version : state.store) {
    for (auto& place : version) {
      for (auto& payload : place.payload) visit(payload, 2);
      for (auto& receipt : place.receipt) visit(receipt, 2);
      visit(place.manifest, 2);
    }
  }
  for (auto& record : state.record) visit(record, 3);
  for (auto& late : state.late) visit(late, 6);  // 63: nothing
}

Key Pack(const ModelState& state) {
  Key key;
  VisitFields(state, [&key](const uint8_t& field, int width) {
    key.high = key.high << width | key.low >> (64 - width);
    key.low = key.low << width | (field & ((1U << width) - 1));
  });
  return key;
}

ModelState Unpack(Key key) {
  ModelState state;
  std::vector<std::pair<uint8_t*, int>> fields;
  VisitFields(state, [&fields](uint8_t& field, int width) { fields.emplace_back(&field, width); });
  for (auto at = fields.rbegin(); at != fields.rend(); ++at) {
    const auto [field, width] = *at;
    *field = static_cast<uint8_t>(key.low & ((1U << width) - 1));
    key.low = key.low >> width | key.high << (64 - width);
    key.high >>= width;
  }
  for (uint8_t& late : state.late) late = late == 63 ? kNothing : late;
  return state;
}

bool IsOfRank(const Put& put) { return put.kind == kPayload || put.kind == kReceipt; }

// All that a state says of one rank.
uint64_t RankKey(const ModelState& state, uint8_t publication, uint8_t index) {
  const ModelState::Rank& rank = state.ranks[publication][index];
  uint64_t key = rank.step | rank.target << 3 | rank.baseline << 4 | rank.lost << 6;
  for (const auto& version : state.store) {
    key = key << 4 | version[publication].payload[index] << 2 | version[publication].receipt[index];
  }
  for (const uint8_t late : state.late) {
    if (late == kNothing) continue;
    const Put put = Put::Of(late);
    if (put.publication == publication && put.rank == index && IsOfRank(put))
      key ^= uint64_t{1} << (32 + 2 * put.kind + put.version);
  }
  return key;
}

void SwapRanks(ModelState* state, uint8_t publication) {
  std::swap(state->ranks[publication][0], state->ranks[publication][1]);
  for (auto& version : state->store) {
    std::swap(version[publication].payload[0], version[publication].payload[1]);
    std::swap(version[publication].receipt[0], version[publication].receipt[1]);
  }
  for (uint8_t& late : state->late) {
    if (late == kNothing) continue;
    Put put = Put::Of(late);
    if (put.publication == publication && IsOfRank(put)) put.rank ^= 1;
    late = put.Packed();
  }
  std::sort(state->late.begin(), state->late.end());
}

// One state for those that only differ in what nobody can tell. What a publication left behind that lost is gone: it may be
// collected at any time, and the ranks that could still look at it see the decision instead. And the two ranks of a trainer are
// alike.
Key Canonical(const ModelState& state, Mutant mutant) {
  ModelState best = state;
  if (mutant == Mutant::kReusedNames) return Pack(best);  // there two trainers share their objects
  for (uint8_t version = 0; version < kVersions; ++version) {
    for (uint8_t publication = 0; publication < kPublications; ++publication) {
      const uint8_t record = best.record[version];
      if (record != kUndecided && record != publication + 1) best.store[version][publication] = {};
    }
  }
  for (uint8_t publication = 0; publication < kPublications; ++publication) {
    if (RankKey(best, publication, 1) < RankKey(best, publication, 0)) SwapRanks(&best, publication);
  }
  return Pack(best);
}

// The states seen, in the order in which they were found, and who led to each.
class Visited {
 public:
  // True if it is new.
  bool Insert(const Key& key, uint32_t parent) {
    if (keys_.size() * 2 >= table_.size()) Grow();
    size_t slot = SlotOf(key);
    if (table_[slot] != kEmpty) return false;
    table_[slot] = static_cast<uint32_t>(keys_.size());
    keys_.push_back(key);
    parents_.push_back(parent);
    return true;
  }
  size_t size() const { return keys_.size(); }
  const Key& key(size_t index) const { return keys_[index]; }
  uint32_t parent(size_t index) const { return parents_[index]; }

 private:
  static constexpr uint32_t kEmpty = UINT32_MAX;

  size_t SlotOf(const Key& key) const {
    uint64_t x = key.low * 0x9e3779b97f4a7c15 ^ (key.high + 0x7f4a7c15) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 31)) * 0x94d049bb133111eb;
    size_t slot = (x ^ (x >> 29)) & (table_.size() - 1);
    while (table_[slot] != kEmpty && !(keys_[table_[slot]] == key)) slot = (slot + 1) & (table_.size() - 1);
    return slot;
  }
  void Grow() {
    table_.assign(std::max<size_t>(table_.size() * 2, 1024), kEmpty);
    for (uint32_t i = 0; i < keys_.size(); ++i) table_[SlotOf(keys_[i])] = i;
  }

  std::vector<Key> keys_;
  std::vector<uint32_t> parents_;
  std::vector<uint32_t> table_;
};

// The names of the steps from the start to state `index`, found by taking each step again.
std::vector<std::string> TraceOf(const Machine& machine, Mutant mutant, const Visited& visited, uint32_t index) {
  std::vector<std::string> names;
  for (; index != 0; index = visited.parent(index)) {
    std::string name;
    machine.Successors(Unpack(visited.key(visited.parent(index))), [&](const ModelState& next, const auto& step_name) {
      if (name.empty() && Canonical(next, mutant) == visited.key(index)) name = step_name();
    });
    names.push_back(name);
  }
  std::reverse(names.begin(), names.end());
  return names;
}

}  // namespace

std::string NameOf(Mutant mutant) {
  constexpr const char* kNames[kMutantCount] = {"the protocol",           "record overwrites",    "record before manifest",
                                                "receipt before payload", "seals early",          "baseline before decision",
                                                "reused names",           "lost reply is a loss", "collects undecided"};
  return kNames[static_cast<int>(mutant)];
}

ModelResult Explore(Mutant mutant, int late_limit) {
  const Machine machine(mutant, late_limit);
  ModelResult result;
  Visited visited;
  visited.Insert(Canonical(Machine::Start(), mutant), 0);
  for (uint32_t index = 0; index < visited.size() && result.violation.empty(); ++index) {
    const ModelState state = Unpack(visited.key(index));
    const uint8_t first = state.record[0];
    if (first != kUndecided) ++result.first_version_winners[first == kAborted ? kPublications : first - 1];
    machine.Successors(state, [&](const ModelState& next, const auto&) {
      ++result.transition_count;
      const bool is_new = visited.Insert(Canonical(next, mutant), index);
      std::string violation = machine.Violation(state, next);
      if (violation.empty() || !result.violation.empty()) return;
      result.violation = std::move(violation);
      result.trace = TraceOf(machine, mutant, visited, is_new ? static_cast<uint32_t>(visited.size() - 1) : index);
    });
  }
  result.state_count = visited.size();
  return result;
}

}  // namespace xorbit
