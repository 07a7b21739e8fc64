// What an engine has answered, as a driver understands it: the receipt in the reply counts, not the reply's status. Replies are
// lost, and a call that is tried again is refused although what it asked for has been done.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/sampler_identity.h"
#include "server/session_state.h"
#include "transport/http_message.h"

namespace xorbit {

struct EngineReceipt {
  SamplerIdentity identity;
  SessionState state = SessionState::kIdle;
  std::string session_id;
  std::string stream_id;
  std::string base_fingerprint;  // hex
  std::string result;            // of a failure: why
  std::string damage;            // what its weights checker has found to be wrong; mostly empty
  uint64_t target_version = 0;
  std::string target_state;  // hex; empty without a session
  uint64_t applied_version = 0;
  std::string applied_state;  // hex
  bool paused = false;
  double blocked_seconds = 0;             // of the last pause
  std::optional<uint64_t> lease_left_ms;  // until the session ends by itself; none: nobody waits for its driver
};

// Nobody has to end its session: it has a driver that gives signs of life, or soon needs none.
bool EndsByItself(const EngineReceipt& receipt);
std::string SessionText(const EngineReceipt& receipt);  // "session 'a' to version 7"

struct EngineReply {
  bool has_answered = false;  // false: nobody there, or not by the deadline, or no HTTP; `message` says which
  bool is_accepted = false;
  std::string message;
  std::optional<EngineReceipt> receipt;  // also of most refusals
  int64_t wait_ms = 0;                   // not 0: it has done nothing, and is to be asked again after so long (429)
};

EngineReply ReadEngineReply(const Result<HttpReply>& reply);

}  // namespace xorbit
