// HTTP heads and bodies as they come from a socket: read or refused, and what is accepted has one reading.
#include <cstdlib>
#include <string>

#include "base/bytes.h"
#include "drive/engine_reply.h"
#include "server/control_fields.h"
#include "transport/http_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = xorbit::AsText({data, size});
  const auto head = xorbit::ParseHttpHead(text);
  if (head.ok()) {
    if (!head->request.path.starts_with('/') || head->request.path.find_first_of(" ?\r\n") != std::string::npos) std::abort();
    if (!text.ends_with("\r\n\r\n")) std::abort();
  }
  const auto reply = xorbit::ParseHttpReply(text);
  if (reply.ok() && (reply->status < 0 || reply->status > 999 || reply->body.size() > size)) std::abort();
  // What a driver is told by whoever listens there.
  xorbit::HttpReply told;
  told.body = text;
  const xorbit::EngineReply engine = xorbit::ReadEngineReply(told);
  if (!engine.has_answered || (engine.receipt && !engine.is_accepted)) std::abort();
  const auto fields = xorbit::ParseControlFields(text, text);
  if (fields.ok() && fields->participants.size() > xorbit::kMaxParticipants) std::abort();
  return 0;
}
