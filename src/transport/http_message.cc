#include "transport/http_message.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/text.h"

namespace xorbit {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr size_t kMaxHeaderCount = 100;
constexpr uint64_t kMaxRetryAfterSeconds = 86'400;

constexpr std::array<std::pair<int, std::string_view>, 18> kReasons = {{
    {100, "Continue"},
    {200, "OK"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {429, "Too Many Requests"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
}};

bool IsTokenCharacter(char c) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return is_letter || (c >= '0' && c <= '9') || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}
bool IsToken(std::string_view text) { return !text.empty() && std::ranges::all_of(text, IsTokenCharacter); }
bool IsVisible(char c) { return c > ' ' && c < '\x7f'; }
bool IsFieldCharacter(char c) { return IsVisible(c) || c == ' ' || c == '\t'; }

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The text up to the next end of line, which is taken off `rest` too; nothing if no line ends there.
std::optional<std::string_view> TakeLine(std::string_view* rest) {
  const size_t end = rest->find(kLineEnd);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = rest->substr(0, end);
  rest->remove_prefix(end + kLineEnd.size());
  return line;
}

std::optional<uint64_t> ParseDecimal(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct HeaderField {
  std::string name;  // lower case
  std::string_view value;
};

Result<HeaderField> ParseField(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return CorruptError("a header line has no colon");
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = Trimmed(line.substr(colon + 1));
  if (!IsToken(name)) return CorruptError("a header has no proper name");
  if (!std::ranges::all_of(value, IsFieldCharacter)) {
    return CorruptError("header " + Quoted(name) + " has a value that is not plain text");
  }
  return HeaderField{LowerCase(name), value};
}

Status ParseRequestLine(std::string_view line, HttpRequest* request) {
  const size_t first = line.find(' ');
  const size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (second == std::string_view::npos) return CorruptError("the request line is not 'METHOD /path HTTP/1.1'");
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, second - first - 1);
  const std::string_view version = line.substr(second + 1);
  if (!IsToken(method)) return CorruptError("the request has no proper method");
  if (!target.starts_with('/') || !std::ranges::all_of(target, IsVisible)) {
    return CorruptError("the request's target is not a path");
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return UnsupportedError("speak HTTP/1.1");
  const size_t question = std::min(target.find('?'), target.size());
  request->method = method;
  request->path = target.substr(0, question);
  if (question < target.size()) request->query = target.substr(question + 1);
  return {};
}

}  // namespace

Result<HttpHead> ParseHttpHead(std::string_view text) {
  HttpHead head;
  const auto first = TakeLine(&text);
  if (!first) return CorruptError("the request has no first line");
  XORBIT_RETURN_IF_ERROR(ParseRequestLine(*first, &head.request));
  bool has_length = false;
  for (size_t count = 0;; ++count) {
    const auto line = TakeLine(&text);
    if (!line) return CorruptError("the request's head has no end");
    if (line->empty()) break;
    if (count == kMaxHeaderCount) return CorruptError("the request has too many headers");
    XORBIT_ASSIGN_OR_RETURN(const HeaderField field, ParseField(*line));
    if (field.name == "content-length") {
      const auto length = ParseDecimal(field.value);
      if (!length || has_length) return CorruptError("the request has no proper Content-Length");
      head.body_bytes = *length;
      has_length = true;
    } else if (field.name == "transfer-encoding") {
      return UnsupportedError("send the body with a Content-Length");
    } else if (field.name == "expect") {
      head.expects_continue = LowerCase(field.value) == "100-continue";
    } else if (field.name == "authorization") {
      if (!head.request.authorization.empty()) return CorruptError("the request authorises itself twice");
      head.request.authorization = field.value;
    } else if (field.name == "origin" || (field.name == "sec-fetch-site" && field.value != "none")) {
      head.request.of_web_page = true;
    } else if (field.name == "x-xorbit-sync-id") {
      head.request.sync_id = field.value;
    }
  }
  if (!text.empty()) return CorruptError("the request's head goes on after its end");
  return head;
}

std::string_view QueryValue(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name) return pair.substr(equals + 1);
  }
  return {};
}

std::string_view ReasonOf(int status) {
  for (const auto& [known, reason] : kReasons) {
    if (known == status) return reason;
  }
  return "Unknown";
}

std::string WriteHttpReply(const HttpReply& reply) {
  std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " " + std::string(ReasonOf(reply.status)) + "\r\n";
  text += "Content-Type: " + reply.content_type + "\r\n";
  text += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
  if (reply.retry_after_seconds > 0) text += "Retry-After: " + std::to_string(reply.retry_after_seconds) + "\r\n";
  text += "Cache-Control: no-store\r\nConnection: close\r\n\r\n";
  return text + reply.body;
}

Result<HttpReplyHead> ParseHttpReplyHead(std::string_view text) {
  HttpReplyHead head;
  const auto first = TakeLine(&text);
  const bool is_http = first && first->starts_with("HTTP/1.") && first->size() >= 12 && (*first)[8] == ' ';
  if (!is_http || (first->size() > 12 && (*first)[12] != ' ')) return CorruptError("the answer is not HTTP/1.1");
  const auto status = ParseDecimal(first->substr(9, 3));
  if (!status || *status < 100 || *status > 599) return CorruptError("the answer has no status");
  head.status = static_cast<int>(*status);
  for (;;) {
    const auto line = TakeLine(&text);
    if (!line) return CorruptError("the answer's head has no end");
    if (line->empty()) break;
    XORBIT_ASSIGN_OR_RETURN(const HeaderField field, ParseField(*line));
    if (field.name == "content-type") {
      head.content_type = field.value;
    } else if (field.name == "content-length") {
      const auto length = ParseDecimal(field.value);
      if (!length || head.body_bytes) return CorruptError("the answer has no proper Content-Length");
      head.body_bytes = length;
    } else if (field.name == "transfer-encoding") {
      if (LowerCase(field.value) != "chunked") return UnsupportedError("the answer's Transfer-Encoding is not chunked");
      head.is_chunked = true;
    } else if (field.name == "retry-after") {
      head.retry_after_seconds =
          static_cast<int64_t>(std::min<uint64_t>(ParseDecimal(field.value).value_or(0), kMaxRetryAfterSeconds));
    }
  }
  if (head.is_chunked && head.body_bytes) return CorruptError("the answer has two lengths");
  return head;
}

}  // namespace xorbit
