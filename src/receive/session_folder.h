// The objects through which a cohort's ranks speak, in a store: where they are, and what they say. store_cohort.h draws a
// session's folder; when to write what is store_cohort.cc's business.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "receive/cohort_records.h"
#include "transport/object_store.h"

namespace xorbit {

// A vote's step, and what is ruled, as they stand in names.
inline constexpr std::string_view kPreparedStep = "prepared";
inline constexpr std::string_view kGatedStep = "gated";
inline constexpr std::string_view kAppliedStep = "applied";
inline constexpr std::string_view kGoRuling = "go";
inline constexpr std::string_view kOutcomeRuling = "outcome";

// Everything is created once and never changes. Reading gives nothing while the object is not there; kCorrupt if it is damaged.
class SessionFolder {
 public:
  SessionFolder(ObjectStore& store, std::string prefix, uint32_t rank_count)
      : store_(store), prefix_(std::move(prefix)), rank_count_(rank_count) {}

  // Sessions of which there is anything, ascending.
  Result<std::vector<uint64_t>> Sessions();
  Status Remove(uint64_t session);

  // kRefused for a target of another number of ranks.
  Result<std::optional<SessionTarget>> Target(uint64_t session);
  Status PutTarget(uint64_t session, const SessionTarget& target);  // kExists

  Result<std::optional<PreparedReceipt>> Prepared(uint64_t session, uint32_t rank);
  // Of kGatedStep or kAppliedStep.
  Result<std::optional<StepReceipt>> Step(uint64_t session, std::string_view step, uint32_t rank);
  // kExists if another process has voted for this rank.
  Status PutVote(uint64_t session, std::string_view step, uint32_t rank, const std::string& vote);

  Result<std::optional<RulingRecord>> ReadRuling(uint64_t session, std::string_view ruling);
  // Success too if somebody was faster: what is there counts.
  Status ProposeRuling(uint64_t session, std::string_view ruling, const RulingRecord& record);

 private:
  std::string Key(uint64_t session, std::string_view file) const;
  std::string VoteKey(uint64_t session, std::string_view step, uint32_t rank) const;
  Result<std::optional<std::string>> Read(const std::string& key);

  ObjectStore& store_;
  std::string prefix_;
  uint32_t rank_count_;
};

}  // namespace xorbit
