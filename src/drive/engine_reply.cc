#include "drive/engine_reply.h"

#include <algorithm>

#include "base/json.h"
#include "base/text.h"

namespace xorbit {
namespace {

constexpr uint32_t kMaxDepth = 8;

JsonShape ReplyShape() {
  JsonShape participant =
      JsonShape::Object({"state", "session_id", "stream_id", "base_fingerprint", "result", "damage", "target_version",
                         "target_state", "applied_version", "applied_state", "paused", "lease_left_ms"});
  participant.fields.push_back({"identity", JsonShape::Object({"engine_id", "hostname", "pid", "start_ticks"})});
  participant.fields.push_back({"scheduler_timing", JsonShape::Object({"blocked_s"})});
  JsonShape shape = JsonShape::Object({"success", "message"});
  shape.fields.push_back({"participants", JsonShape::Each(std::move(participant), 1)});
  return shape;
}

Result<SessionState> ReadState(const Json& object) {
  XORBIT_ASSIGN_OR_RETURN(const std::string name, GetString(object, "state"));
  const std::optional<SessionState> state = SessionStateNamed(name);
  if (!state) return CorruptError("state is none that a session can be in");
  return *state;
}

Result<EngineReceipt> ReadReceipt(const Json& object) {
  EngineReceipt receipt;
  XORBIT_RETURN_IF_ERROR(ExpectObject(object, "a participant"));
  XORBIT_ASSIGN_OR_RETURN(const Json* identity, GetObject(object, "identity"));
  XORBIT_ASSIGN_OR_RETURN(receipt.identity.engine_id, GetString(*identity, "engine_id"));
  XORBIT_ASSIGN_OR_RETURN(receipt.identity.hostname, GetString(*identity, "hostname"));
  XORBIT_ASSIGN_OR_RETURN(receipt.identity.pid, GetUnsigned(*identity, "pid"));
  XORBIT_ASSIGN_OR_RETURN(receipt.identity.start_ticks, GetUnsigned(*identity, "start_ticks"));
  XORBIT_ASSIGN_OR_RETURN(receipt.state, ReadState(object));
  XORBIT_ASSIGN_OR_RETURN(receipt.session_id, GetString(object, "session_id"));
  XORBIT_ASSIGN_OR_RETURN(receipt.stream_id, GetString(object, "stream_id"));
  XORBIT_ASSIGN_OR_RETURN(receipt.base_fingerprint, GetString(object, "base_fingerprint"));
  XORBIT_ASSIGN_OR_RETURN(receipt.result, GetString(object, "result"));
  if (object.contains("damage")) {
    XORBIT_ASSIGN_OR_RETURN(receipt.damage, GetString(object, "damage"));
  }
  XORBIT_ASSIGN_OR_RETURN(receipt.target_version, GetUnsigned(object, "target_version"));
  XORBIT_ASSIGN_OR_RETURN(receipt.target_state, GetString(object, "target_state"));
  XORBIT_ASSIGN_OR_RETURN(receipt.applied_version, GetUnsigned(object, "applied_version"));
  XORBIT_ASSIGN_OR_RETURN(receipt.applied_state, GetString(object, "applied_state"));
  XORBIT_ASSIGN_OR_RETURN(receipt.paused, GetBool(object, "paused"));
  XORBIT_ASSIGN_OR_RETURN(const Json* timing, GetObject(object, "scheduler_timing"));
  XORBIT_ASSIGN_OR_RETURN(const Json* blocked, GetField(*timing, "blocked_s"));
  if (!blocked->is_number()) return CorruptError("blocked_s is not a number");
  receipt.blocked_seconds = blocked->get<double>();
  if (const auto lease = object.find("lease_left_ms"); lease != object.end() && !lease->is_null()) {
    XORBIT_ASSIGN_OR_RETURN(receipt.lease_left_ms, AsUnsigned(*lease, "lease_left_ms"));
  }
  return receipt;
}

Status ReadBody(std::string_view body, EngineReply* reply) {
  XORBIT_ASSIGN_OR_RETURN(const Json json, ParseJson(body, ReplyShape(), kMaxDepth));
  XORBIT_RETURN_IF_ERROR(ExpectObject(json, "the reply"));
  XORBIT_ASSIGN_OR_RETURN(reply->message, GetString(json, "message"));
  const auto participants = json.find("participants");
  if (participants == json.end()) return {};
  if (!participants->is_array() || participants->size() != 1) return CorruptError("the reply has not one participant");
  XORBIT_ASSIGN_OR_RETURN(reply->receipt, ReadReceipt((*participants)[0]));
  return {};
}

}  // namespace

bool EndsByItself(const EngineReceipt& receipt) {
  return receipt.lease_left_ms || receipt.session_id == kOneCallId || receipt.state == SessionState::kApplying;
}

std::string SessionText(const EngineReceipt& receipt) {
  return "session " + Quoted(receipt.session_id) + " to version " + std::to_string(receipt.target_version);
}

EngineReply ReadEngineReply(const Result<HttpReply>& reply) {
  EngineReply read;
  if (!reply.ok()) {
    read.message = reply.status().message();
    return read;
  }
  read.has_answered = true;
  read.is_accepted = reply->status == 200;
  if (reply->status == 429) read.wait_ms = std::max<int64_t>(reply->retry_after_seconds, 1) * 1'000;
  if (const Status status = ReadBody(reply->body, &read); !status.ok()) {
    read.is_accepted = false;
    read.receipt.reset();
    read.message = "status " + std::to_string(reply->status) + " from what is no xorbit serve: " + status.message();
  }
  return read;
}

}  // namespace xorbit
