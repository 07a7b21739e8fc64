#include "receive/session_folder.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "store/checked_text.h"

namespace xorbit {
namespace {

constexpr uint64_t kMaxSession = 999'999'999'999;  // so that there is always a next one

}  // namespace

std::string SessionFolder::Key(uint64_t session, std::string_view file) const {
  return prefix_ + "/s" + ZeroPadded(session, 6) + "/" + std::string(file);
}

std::string SessionFolder::VoteKey(uint64_t session, std::string_view step, uint32_t rank) const {
  return Key(session, std::string(step) + "-" + ZeroPadded(rank, 5) + ".json");
}

Result<std::optional<std::string>> SessionFolder::Read(const std::string& key) {
  Result<std::string> text = GetText(store_, key, kMaxCohortRecordBytes);
  if (text.ok()) return std::optional(std::move(text).value());
  return text.status().code() == Code::kNotFound ? Result(std::optional<std::string>()) : text.status();
}

Result<std::vector<uint64_t>> SessionFolder::Sessions() {
  const std::string begin = prefix_ + "/s";
  XORBIT_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, store_.List(begin));
  std::vector<uint64_t> sessions;
  for (const ObjectInfo& object : objects) {
    uint64_t session = 0;
    const char* const end = object.key.data() + object.key.size();
    const auto parsed = std::from_chars(object.key.data() + begin.size(), end, session);
    if (parsed.ec != std::errc() || session > kMaxSession || !object.key.starts_with(Key(session, ""))) continue;
    if (sessions.empty() || sessions.back() != session) sessions.push_back(session);
  }
  std::sort(sessions.begin(), sessions.end());
  return sessions;
}

Status SessionFolder::Remove(uint64_t session) {
  XORBIT_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, store_.List(Key(session, "")));
  for (const ObjectInfo& object : objects) XORBIT_RETURN_IF_ERROR(store_.Remove(object.key));
  return {};
}

Result<std::optional<SessionTarget>> SessionFolder::Target(uint64_t session) {
  XORBIT_ASSIGN_OR_RETURN(const std::optional<std::string> text, Read(Key(session, "target.json")));
  if (!text) return std::optional<SessionTarget>();
  XORBIT_ASSIGN_OR_RETURN(const SessionTarget target, ParseTarget(*text, rank_count_));
  return std::optional(target);
}

Status SessionFolder::PutTarget(uint64_t session, const SessionTarget& target) {
  return PutText(store_, Key(session, "target.json"), WriteTarget(target, rank_count_));
}

Result<std::optional<PreparedReceipt>> SessionFolder::Prepared(uint64_t session, uint32_t rank) {
  XORBIT_ASSIGN_OR_RETURN(const std::optional<std::string> text, Read(VoteKey(session, kPreparedStep, rank)));
  if (!text) return std::optional<PreparedReceipt>();
  XORBIT_ASSIGN_OR_RETURN(PreparedReceipt receipt, ParsePreparedReceipt(*text));
  return std::optional(std::move(receipt));
}

Result<std::optional<StepReceipt>> SessionFolder::Step(uint64_t session, std::string_view step, uint32_t rank) {
  XORBIT_ASSIGN_OR_RETURN(const std::optional<std::string> text, Read(VoteKey(session, step, rank)));
  if (!text) return std::optional<StepReceipt>();
  XORBIT_ASSIGN_OR_RETURN(StepReceipt receipt, ParseStepReceipt(*text));
  return std::optional(std::move(receipt));
}

Status SessionFolder::PutVote(uint64_t session, std::string_view step, uint32_t rank, const std::string& vote) {
  return PutText(store_, VoteKey(session, step, rank), vote);
}

Result<std::optional<RulingRecord>> SessionFolder::ReadRuling(uint64_t session, std::string_view ruling) {
  XORBIT_ASSIGN_OR_RETURN(const std::optional<std::string> text, Read(Key(session, std::string(ruling) + ".json")));
  if (!text) return std::optional<RulingRecord>();
  XORBIT_ASSIGN_OR_RETURN(RulingRecord record, ParseRuling(*text));
  return std::optional(std::move(record));
}

Status SessionFolder::ProposeRuling(uint64_t session, std::string_view ruling, const RulingRecord& record) {
  const Status put = PutText(store_, Key(session, std::string(ruling) + ".json"), WriteRuling(record));
  return put.code() == Code::kExists ? Status() : put;
}

}  // namespace xorbit
