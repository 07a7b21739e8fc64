// The steps of the commit protocol's model (commit_model.h): from one state to all that may follow, and what must never be.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "store/testing/commit_model.h"

namespace xorbit {

enum Kind : uint8_t { kPayload, kReceipt, kManifest, kRecord, kAbort };

// A put, packed into a byte: kind, version, publication, rank.
struct Put {
  Kind kind;
  uint8_t version;
  uint8_t publication;
  uint8_t rank;

  uint8_t Packed() const {
    return static_cast<uint8_t>(((kind * kVersions + version) * kPublications + publication) * kRanks + rank);
  }
  static Put Of(uint8_t packed) {
    const uint8_t place = packed / kRanks;
    const uint8_t version = place / kPublications;
    return {static_cast<Kind>(version / kVersions), static_cast<uint8_t>(version % kVersions),
            static_cast<uint8_t>(place % kPublications), static_cast<uint8_t>(packed % kRanks)};
  }
};

inline std::string NameOf(const Put& put) {
  constexpr const char* kNames[] = {"payload", "receipt", "manifest", "record", "abort"};
  std::string name = std::string(kNames[put.kind]) + " of v" + std::to_string(put.version + 1);
  if (put.kind == kAbort) return name;
  return name + " by publication " + std::to_string(put.publication) + " rank " + std::to_string(put.rank);
}

class Machine {
 public:
  Machine(Mutant mutant, int late_limit) : mutant_(mutant), late_limit_(late_limit) {}

  static ModelState Start() {
    ModelState state;
    for (const int trainer : {0, 1}) {
      for (ModelState::Rank& rank : state.ranks[static_cast<size_t>(trainer)]) rank.step = 0;
    }
    return state;
  }

  // Calls emit(state, name of the step) for each.
  template <typename Emit>
  void Successors(const ModelState& state, const Emit& emit) const {
    for (uint8_t publication = 0; publication < kPublications; ++publication) {
      for (uint8_t rank = 0; rank < kRanks; ++rank) {
        if (state.ranks[publication][rank].step != 5) StepRank(state, publication, rank, emit);
      }
    }
    Restart(state, emit);
    for (uint8_t version = 0; version < kVersions; ++version) {
      if (state.record[version] == kUndecided && Previous(state, version) != kUndecided) {
        IssuePut(
            state, {kAbort, version, 0, 0}, [](ModelState*) {}, emit);
      }
      if (mutant_ == Mutant::kCollectsUndecided && state.record[version] == kUndecided) CollectUndecided(state, version, emit);
    }
    for (size_t i = 0; i < state.late.size(); ++i) {
      if (state.late[i] == kNothing) continue;
      ModelState next = state;
      next.late[i] = kNothing;
      std::sort(next.late.begin(), next.late.end());
      const Put put = Put::Of(state.late[i]);
      Apply(&next, put);
      emit(next, [put] { return "late arrives: " + NameOf(put); });
    }
  }

  // What is wrong with a state, or with a step to it; empty if nothing.
  std::string Violation(const ModelState& before, const ModelState& after) const {
    for (uint8_t version = 0; version < kVersions; ++version) {
      if (before.record[version] != kUndecided && before.record[version] != after.record[version]) {
        return "a decided version changed: readers see two contents";
      }
      const uint8_t record = after.record[version];
      if (record == kUndecided || record == kAborted) continue;
      const ModelState::Publication& winner = after.store[version][Folder(record - 1)];
      if (winner.manifest == 0) return "a committed version has no manifest";
      for (const uint8_t payload : winner.payload) {
        if (payload == 0) return "a committed version lacks a payload";
        if (payload != winner.manifest) return "a committed version's payload is not the one that was sealed";
      }
    }
    for (uint8_t publication = 0; publication < kPublications; ++publication) {
      for (const ModelState::Rank& rank : after.ranks[publication]) {
        const uint8_t record = rank.baseline == 0 ? kUndecided : after.record[rank.baseline - 1];
        if (rank.baseline > 0 && record == kUndecided) return "a baseline moved before its version was decided";
        // The restarted trainer begins with whatever was committed first.
        const bool inherited = publication == 2 && rank.baseline == 1;
        if (rank.baseline > 0 && !inherited && record != publication + 1) {
          return "a baseline moved to a version that another publication got";
        }
        if (rank.lost > 0 && after.record[rank.lost - 1] == publication + 1) {
          return "a rank believes that it lost, but its publication was decided";
        }
      }
    }
    return "";
  }

 private:
  // Where a publication's objects are.
  uint8_t Folder(uint8_t publication) const { return mutant_ == Mutant::kReusedNames && publication == 2 ? 0 : publication; }
  static uint8_t Previous(const ModelState& state, uint8_t version) {
    return version == 0 ? uint8_t{1} : state.record[version - 1];
  }

  void Apply(ModelState* state, const Put& put) const {
    if (put.kind == kRecord || put.kind == kAbort) {
      uint8_t& record = state->record[put.version];
      const uint8_t value = put.kind == kAbort ? kAborted : static_cast<uint8_t>(put.publication + 1);
      if (record == kUndecided || mutant_ == Mutant::kRecordOverwrites) record = value;
      return;
    }
    ModelState::Publication& place = state->store[put.version][Folder(put.publication)];
    uint8_t& object = put.kind == kPayload   ? place.payload[put.rank]
                      : put.kind == kReceipt ? place.receipt[put.rank]
                                             : place.manifest;
    const auto value = static_cast<uint8_t>(put.publication + 1);
    if (object == 0 || mutant_ == Mutant::kReusedNames) object = value;
  }

  // A put and what may come of it; `proceed` is what the caller does once it is answered.
  template <typename Proceed, typename Emit>
  void IssuePut(const ModelState& state, const Put& put, const Proceed& proceed, const Emit& emit) const {
    ModelState done = state;
    Apply(&done, put);
    // The caller does not know, and tries again. Of payloads and receipts nothing is told that it does not know anyway.
    if (put.kind != kPayload && put.kind != kReceipt) emit(done, [put] { return "reply lost: " + NameOf(put); });
    proceed(&done);
    emit(done, [put] { return "put: " + NameOf(put); });
    if (std::count(state.late.begin(), state.late.end(), kNothing) + late_limit_ <= kLateWrites) return;
    ModelState delayed = state;
    if (delayed.late[0] == put.Packed()) return;
    delayed.late[1] = put.Packed();  // ascending, nothing last
    std::sort(delayed.late.begin(), delayed.late.end());
    emit(delayed, [put] { return "delayed: " + NameOf(put); });
  }

  template <typename Emit>
  void StepRank(const ModelState& state, uint8_t publication, uint8_t index, const Emit& emit) const {
    const auto me = [publication, index](ModelState* s) -> ModelState::Rank& { return s->ranks[publication][index]; };
    const ModelState::Rank& rank = state.ranks[publication][index];
    const uint8_t version = rank.target;
    const ModelState::Publication& place = state.store[version][Folder(publication)];
    const auto attempt = static_cast<uint8_t>(publication + 1);

    ModelState dead = state;
    me(&dead) = {.step = 5};
    emit(dead, [=] { return "dies: publication " + std::to_string(publication) + " rank " + std::to_string(index); });

    const auto go_to = [me](uint8_t step) { return [me, step](ModelState* s) { me(s).step = step; }; };
    const bool receipt_first = mutant_ == Mutant::kReceiptBeforePayload;
    if (rank.step == 0) IssuePut(state, {receipt_first ? kReceipt : kPayload, version, publication, index}, go_to(1), emit);
    if (rank.step == 1) IssuePut(state, {receipt_first ? kPayload : kReceipt, version, publication, index}, go_to(2), emit);
    if (rank.step == 2 || rank.step == 3) {
      if (state.record[version] != kUndecided) {
        ModelState next = state;
        me(&next).step = 4;
        emit(next, [] { return std::string("sees a decision"); });
      }
    }
    if (rank.step == 2) {
      const auto receipts = std::count(place.receipt.begin(), place.receipt.end(), attempt);
      const auto payloads = std::count(place.payload.begin(), place.payload.end(), attempt);
      const bool may_seal = mutant_ == Mutant::kSealsEarly ? receipts > 0
                            : receipt_first                ? receipts == kRanks
                                                           : receipts == kRanks && payloads == kRanks;
      if (may_seal) {
        IssuePut(
            state, {kManifest, version, publication, 0},
            [&](ModelState* s) {
              me(s).step = 3;
              if (mutant_ == Mutant::kBaselineBeforeDecision) me(s).baseline = version + 1;
            },
            emit);
      }
    }
    if (rank.step == 3 || (rank.step == 2 && mutant_ == Mutant::kRecordBeforeManifest)) Decide(state, publication, index, emit);
    if (rank.step == 4 || rank.step == 6) Learn(state, publication, index, emit);
  }

  template <typename Emit>
  void Decide(const ModelState& state, uint8_t publication, uint8_t index, const Emit& emit) const {
    const uint8_t version = state.ranks[publication][index].target;
    const ModelState::Publication& place = state.store[version][Folder(publication)];
    const bool sealed = place.manifest != 0 || mutant_ == Mutant::kRecordBeforeManifest;
    const bool whole = std::count(place.payload.begin(), place.payload.end(), 0) == 0 || mutant_ == Mutant::kSealsEarly ||
                       mutant_ == Mutant::kReceiptBeforePayload;
    if (!sealed || !whole || Previous(state, version) == kUndecided) return;
    if (state.record[version] != kUndecided && mutant_ != Mutant::kRecordOverwrites && mutant_ != Mutant::kLostReplyIsLoss)
      return;
    const bool was_there = state.record[version] != kUndecided;
    IssuePut(
        state, {kRecord, version, publication, 0},
        [&](ModelState* s) { s->ranks[publication][index].step = mutant_ == Mutant::kLostReplyIsLoss && was_there ? 6 : 4; },
        emit);
  }

  template <typename Emit>
  void Learn(const ModelState& state, uint8_t publication, uint8_t index, const Emit& emit) const {
    ModelState next = state;
    ModelState::Rank& rank = next.ranks[publication][index];
    const uint8_t version = rank.target;
    const uint8_t record = state.record[version];
    if (record == kUndecided) return;  // cannot be: it has seen a decision
    const bool won = record == publication + 1 && rank.step == 4;
    if (won) rank.baseline = version + 1;
    if (!won && record != kAborted) rank.lost = version + 1;
    const bool goes_on = (won || record == kAborted) && version + 1 < kVersions;
    rank.target = goes_on ? version + 1 : version;
    rank.step = goes_on ? 0 : 5;
    emit(next, [=] { return "learns: publication " + std::to_string(publication) + " rank " + std::to_string(index); });
  }

  // Trainer 0 again, both of whose ranks are dead: from the newest committed version, for the next free number.
  template <typename Emit>
  void Restart(const ModelState& state, const Emit& emit) const {
    for (const ModelState::Rank& rank : state.ranks[0]) {
      if (rank.step != 5 || rank.lost != 0 || rank.baseline != 0 || rank.target != 0) return;  // not dead
    }
    for (const ModelState::Rank& rank : state.ranks[2]) {
      if (rank.step != 5 || rank.lost != 0 || rank.baseline != 0 || rank.target != 0) return;  // already
    }
    uint8_t target = 0;
    uint8_t baseline = 0;
    for (; target < kVersions && state.record[target] != kUndecided; ++target) {
      if (state.record[target] != kAborted) baseline = target + 1;
    }
    if (target == kVersions) return;
    ModelState next = state;
    next.ranks[2] = {};
    for (ModelState::Rank& rank : next.ranks[2]) rank = {0, target, baseline, 0};
    for (ModelState::Rank& rank : next.ranks[0]) rank.target = 1;  // never again
    emit(next, [] { return std::string("trainer 0 restarts as publication 2"); });
  }

  // A collector that does not wait for the decision. The right one takes what lost, at once: Canonical.
  template <typename Emit>
  void CollectUndecided(const ModelState& state, uint8_t version, const Emit& emit) const {
    for (uint8_t publication = 0; publication < kPublications; ++publication) {
      ModelState next = state;
      next.store[version][publication] = {};
      emit(next, [=] { return "publication " + std::to_string(publication) + " is collected"; });
    }
  }

  const Mutant mutant_;
  const int late_limit_;
};

}  // namespace xorbit
