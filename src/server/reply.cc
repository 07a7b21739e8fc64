#include "server/reply.h"

#include "base/json.h"

namespace xorbit {
namespace {

HttpReply MakeReply(int status, bool success, std::string_view message, const OrderedJson& more) {
  OrderedJson fields = {{"success", success}, {"message", message}};
  for (const auto& [key, value] : more.items()) fields[key] = value;
  HttpReply reply;
  reply.status = status;
  reply.body = DumpJson(fields) + "\n";
  return reply;
}

}  // namespace

HttpReply SuccessReply(std::string_view message, const OrderedJson& more) { return MakeReply(200, true, message, more); }

HttpReply FailureReply(int status, std::string_view message) {
  return MakeReply(status, false, message, OrderedJson::object());
}

HttpReply FailureReply(int status, std::string_view message, const OrderedJson& more) {
  return MakeReply(status, false, message, more);
}

HttpReply FailureReply(const Status& why) { return FailureReply(HttpStatusOf(why.code()), why.message()); }

HttpReply PlainReply(const OrderedJson& fields) {
  HttpReply reply;
  reply.body = DumpJson(fields) + "\n";
  return reply;
}

OrderedJson OrNull(std::optional<uint64_t> number) { return number ? OrderedJson(*number) : OrderedJson(); }

int HttpStatusOf(Code code) {
  switch (code) {
    case Code::kOk:
      return 200;
    case Code::kUsage:
      return 400;
    case Code::kNotFound:
      return 404;
    case Code::kRefused:
    case Code::kCorrupt:
    case Code::kExists:
      return 409;
    case Code::kUnsupported:
      return 501;
    case Code::kIo:
      break;
  }
  return 500;
}

}  // namespace xorbit
