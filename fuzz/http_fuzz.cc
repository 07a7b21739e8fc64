// HTTP heads and bodies as they come from a socket: read or refused, and what is accepted has one reading.
#include <cstdlib>
#include <string>

#include "base/bytes.h"
#include "drive/engine_reply.h"
#include "server/control_fields.h"
#include "transport/http_message.h"
#include "transport/http_reply.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = xorbit::AsText({data, size});
  const auto head = xorbit::ParseHttpHead(text);
  if (head.ok()) {
    if (!head->request.path.starts_with('/') || head->request.path.find_first_of(" ?\r\n") != std::string::npos) std::abort();
    if (!text.ends_with("\r\n\r\n")) std::abort();
  }
  const auto reply = xorbit::ParseHttpReply(text);
  if (reply.ok() && (reply->status < 200 || reply->status > 599 || reply->body.size() > size)) std::abort();
  // However it was cut on its way.
  xorbit::HttpReplyReader reader;
  xorbit::Status status;
  for (size_t at = 0; at < size && status.ok(); ++at) status = reader.Take(text.substr(at, 1));
  if (status.ok()) status = reader.End();
  if (status.ok() != reply.ok() || (reply.ok() && reader.reply().body != reply->body)) std::abort();
  // What a driver is told by whoever listens there.
  xorbit::HttpReply told;
  told.body = text;
  const xorbit::EngineReply engine = xorbit::ReadEngineReply(told);
  if (!engine.has_answered || (engine.receipt && !engine.is_accepted)) std::abort();
  const auto fields = xorbit::ParseControlFields(text, text);
  if (fields.ok() && fields->participants.size() > xorbit::kMaxParticipants) std::abort();
  return 0;
}
