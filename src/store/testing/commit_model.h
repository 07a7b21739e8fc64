// The commit protocol as a finite machine, small enough to visit every state. stream_seal.cc and stream_publish.cc are what it
// models; the words are those of docs/design/publishing.md.
//
// Two versions are to be decided. Two trainers of two ranks each start from version 0; the first may be restarted once both its
// ranks are dead, with a new publication id. A rank puts its payload, its receipt, the manifest once all receipts are there,
// and the record once the manifest is there; then it learns what was decided and goes on or stops. Between any two steps, any
// rank may die. Every put may take effect and be answered, take effect and its reply be lost (the rank tries again), or stay on
// its way while the rank tries again or dies: up to two such late writes arrive at any later time. An aborter may give up the
// version that is next at any time, late too; a collector may remove any object of a publication that lost. Readers need no
// state of their own: whatever a reader can see of a decided version must never change from one state to the next.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace xorbit {

// One broken protocol each; the model must find what it breaks.
enum class Mutant {
  kNone,
  kRecordOverwrites,        // Put instead of create-only for the record
  kRecordBeforeManifest,    // decides without looking for the manifest
  kReceiptBeforePayload,    // and seals without looking for payloads
  kSealsEarly,              // with one receipt of two
  kBaselineBeforeDecision,  // moves it when the manifest is sealed
  kReusedNames,             // a restarted trainer puts its payloads over those of the dead one
  kLostReplyIsLoss,         // takes "exists" for a lost race without comparing
  kCollectsUndecided,       // removes publications of versions that are not decided yet
};
inline constexpr int kMutantCount = 9;
std::string NameOf(Mutant mutant);

inline constexpr uint8_t kVersions = 2;
inline constexpr uint8_t kPublications = 3;  // trainer 0, trainer 1, trainer 0 restarted
inline constexpr uint8_t kRanks = 2;
inline constexpr uint8_t kUndecided = 0;
inline constexpr uint8_t kAborted = 7;  // other values of a record: publication + 1
inline constexpr uint8_t kNothing = 255;
inline constexpr int kLateWrites = 2;

struct ModelState {
  struct Rank {
    // 0 payload, 1 receipt, 2 seal, 3 decide, 4 learn, 5 not running, 6 learn after its put was answered "exists"
    uint8_t step = 5;
    uint8_t target = 0;    // index of the version that it works on
    uint8_t baseline = 0;  // the version whose weights it takes for served
    uint8_t lost = 0;      // 1 + index of the version that it believes another publication got
  };
  struct Publication {
    std::array<uint8_t, kRanks> payload{};  // 0 absent, else 1 + the attempt whose bytes it holds
    std::array<uint8_t, kRanks> receipt{};
    uint8_t manifest = 0;  // the same, of all payloads
  };
  std::array<std::array<Rank, kRanks>, kPublications> ranks;
  std::array<std::array<Publication, kPublications>, kVersions> store;
  std::array<uint8_t, kVersions> record{};
  std::array<uint8_t, kLateWrites> late = {kNothing, kNothing};  // puts on their way, ascending
};

struct ModelResult {
  uint64_t state_count = 0;
  uint64_t transition_count = 0;
  std::array<uint64_t, kPublications + 1> first_version_winners{};  // states by who got version 1; last: aborted
  std::string violation;                                            // empty if none
  std::vector<std::string> trace;                                   // the steps that lead to it
};

// Breadth first over all reachable states with at most `late_limit` (up to kLateWrites) late writes on their way, up to the
// first violation, whose trace is therefore a shortest one.
ModelResult Explore(Mutant mutant, int late_limit);

}  // namespace xorbit
