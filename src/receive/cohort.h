// What a receiver asks of the other ranks that must change together with it: nothing, if it is alone.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "receive/cohort_records.h"

namespace xorbit {

// What the cohort last committed, and what this rank's live memory held then.
struct CohortStanding {
  uint64_t version = 0;
  StateDigest state;
};

// One rank's part in its cohort. The calls of a session come in this order, each at most once; one thread at a time:
//
//   Open -> AwaitGo -> (true) AwaitGate -> (true) AwaitOutcome
//
// False, or an error, ends the session for this rank, which then holds or goes back to the old version.
class CohortMember {
 public:
  CohortMember() = default;
  CohortMember(const CohortMember&) = delete;
  CohortMember& operator=(const CohortMember&) = delete;
  virtual ~CohortMember() = default;

  // Whether this memory is one of several, whose digests add up to a version's.
  virtual bool partial() const = 0;

  // Before the engine serves, once in a process's life: ends every session in which an earlier life of this rank may have
  // voted. Nothing if nothing was ever committed here: the rank then has to hold what the others hold.
  virtual Result<std::optional<CohortStanding>> Join() = 0;

  // The session that another rank has opened and this one has not taken part in.
  virtual Result<std::optional<SessionTarget>> Pending() = 0;

  // Opens the next session, or takes the one that is open: what comes back counts, not what was wanted.
  virtual Result<SessionTarget> Open(const SessionTarget& wanted) = 0;

  // Votes, and waits for the go decision. True: every rank has prepared, and the shares add up. False is nobody's fault but
  // lasts: `last_reason` says whose no it was. An error: this rank has left the session, live memory must stay as it is.
  virtual Result<bool> AwaitGo(const PreparedReceipt& receipt) = 0;

  // The engine has stopped, or (with a reason) has not. True: no rank serves; apply. Otherwise resume as before.
  virtual Result<bool> AwaitGate(const std::string& failure) = 0;

  // Applied and checked, or (with a reason) live memory is as it was. True: committed, resume on the new version. False: undo,
  // and resume as before. An error after success: the outcome cannot be known, so this rank must not serve again.
  virtual Result<bool> AwaitOutcome(const std::string& failure, const StateDigest& state) = 0;

  // Why the last session did not commit.
  virtual const std::string& last_reason() const = 0;
};

// A receiver of its own: no I/O, nobody to wait for. Checks that its shares make the whole, as several would together.
std::unique_ptr<CohortMember> AloneMember();

}  // namespace xorbit
