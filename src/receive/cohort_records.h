// What the ranks of a cohort write for each other: small JSON objects, one file of code for all, since they live no longer than
// the memory that they speak of and are read by the same build that wrote them. They are still read as strictly as any other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "change/state_digest.h"
#include "receive/cohort_protocol.h"

namespace xorbit {

inline constexpr uint64_t kMaxCohortRecordBytes = uint64_t{64} << 10;
inline constexpr uint32_t kMaxCohortRanks = 4096;

// What a session is about: target.json.
struct SessionTarget {
  uint64_t from = 0;
  uint64_t to = 0;
  friend bool operator==(const SessionTarget&, const SessionTarget&) = default;
};

// A sum to which every rank adds its part, and what must come out. Ranks agree on names, order and `whole`.
struct Share {
  std::string name;
  StateDigest mine;
  StateDigest whole;
};

// prepared-R.json. With a `reason` a no: this rank cannot take part.
struct PreparedReceipt {
  std::string reason;
  SessionTarget target;       // what it has prepared
  std::vector<Share> shares;  // of a yes
  Vote vote() const { return reason.empty() ? Vote::kYes : Vote::kNo; }
};

// gated-R.json and applied-R.json. `state`: of an applied yes, D over the elements that this rank counts.
struct StepReceipt {
  std::string reason;
  StateDigest state;
  Vote vote() const { return reason.empty() ? Vote::kYes : Vote::kNo; }
};

// go.json and outcome.json.
struct RulingRecord {
  bool yes = false;
  std::string reason;  // of a no
};

// Whether yes votes belong together: one target, the same shares, and each share's parts make the whole. kRefused says what
// does not add up.
Status AddUp(std::span<const PreparedReceipt> receipts);

// `member` identifies the process, so that no two ever write the same receipt. Deterministic.
std::string WriteTarget(const SessionTarget& target, uint32_t rank_count);
std::string WriteReceipt(const PreparedReceipt& receipt, std::string_view member);
std::string WriteReceipt(const StepReceipt& receipt, std::string_view member);
std::string WriteRuling(const RulingRecord& ruling);

// kCorrupt; a target for another number of ranks is kRefused.
Result<SessionTarget> ParseTarget(std::string_view json, uint32_t rank_count);
Result<PreparedReceipt> ParsePreparedReceipt(std::string_view json);
Result<StepReceipt> ParseStepReceipt(std::string_view json);
Result<RulingRecord> ParseRuling(std::string_view json);

}  // namespace xorbit
