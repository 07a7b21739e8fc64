// One call to the server of an engine, and whether what it answers means that it has done what it was asked.
#pragma once

#include <optional>
#include <string>

#include "server/engine_link.h"
#include "transport/http_client.h"

namespace xorbit {

struct EngineAddress {
  HttpEndpoint endpoint;
  std::string token;    // empty: none
  std::string sync_id;  // empty: none
};

// What the engine answered, whatever its status. kIo, kCorrupt as of CallHttp.
Result<HttpReply> CallEngineServer(const EngineAddress& engine, const EngineCall& call, HttpDeadline deadline);
// The same; as of CheckReply unless the answer means success.
Status AskEngine(const EngineAddress& engine, const EngineCall& call, HttpDeadline deadline);

// kRefused unless the reply means that the call was done, by the call's rule; kUnsupported if a server lacks an endpoint, and
// it is known what to do about that.
Status CheckReply(const EngineCall& call, const HttpReply& reply);
// kRefused if the engine wanted another key.
Status CheckKey(const EngineCall& call, const HttpReply& reply);
// "weight_version" of a reply to LabelQuestion; nothing if the engine names none: it has no such endpoint, or answers without.
// kRefused if the reply does not tell, for it is not the engine's: an error, or no JSON object.
Result<std::optional<std::string>> LabelIn(const EngineCall& question, const HttpReply& reply);
// Where the first model of a reply to ModelQuestion comes from, if it says.
std::optional<std::string> ModelIn(const HttpReply& reply);

}  // namespace xorbit
