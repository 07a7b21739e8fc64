#include "transport/http_reply.h"

#include <algorithm>
#include <charconv>

namespace xorbit {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr uint64_t kMaxChunkLineBytes = 1024;

// Whether what stands before `mark`, found at `end`, is longer than allowed, or will be once the mark has come.
bool IsTooLong(std::string_view text, size_t end, std::string_view mark, uint64_t limit_bytes) {
  return end == std::string_view::npos ? text.size() >= limit_bytes + mark.size() : end > limit_bytes;
}

}  // namespace

Status HttpReplyReader::Take(std::string_view bytes) {
  pending_ += bytes;
  for (bool moved = true; moved;) {
    XORBIT_ASSIGN_OR_RETURN(moved, Step());
  }
  pending_.erase(0, at_);
  at_ = 0;
  return {};
}

Status HttpReplyReader::End() {
  if (state_ == State::kBodyToEnd) state_ = State::kDone;
  if (state_ == State::kDone) return {};
  if (state_ == State::kHead && pending_.empty()) return IoError("the connection was closed without an answer");
  return CorruptError("the answer is cut off");
}

// One step if the bytes for it are there.
Result<bool> HttpReplyReader::Step() {
  switch (state_) {
    case State::kHead:
      return StepHead();
    case State::kBody:
      return StepBody(left_bytes_);
    case State::kBodyToEnd:
      left_bytes_ = Rest().size();
      return Rest().empty() ? Result<bool>(false) : StepBody(left_bytes_);
    case State::kChunkSize:
      return StepChunkSize();
    case State::kChunkEnd: {
      if (!kLineEnd.starts_with(Rest().substr(0, kLineEnd.size()))) return CorruptError("a chunk of the answer has no end");
      if (Rest().size() < kLineEnd.size()) return false;
      at_ += kLineEnd.size();
      state_ = State::kChunkSize;
      return true;
    }
    case State::kTrailer:
      return StepTrailer();
    case State::kDone:
      break;
  }
  if (!Rest().empty()) return CorruptError("the answer goes on after its end");
  return false;
}

Result<bool> HttpReplyReader::StepHead() {
  const size_t end = Rest().find(kHeadEnd);
  if (end == std::string_view::npos) {
    constexpr std::string_view kStart = "HTTP/1.";
    const std::string_view start = Rest().substr(0, kStart.size());
    if (!kStart.starts_with(start)) return CorruptError("the answer is not HTTP/1.1");
  }
  if (IsTooLong(Rest(), end, kHeadEnd, kMaxHttpHeadBytes)) return CorruptError("the answer's head is too long");
  if (end == std::string_view::npos) return false;
  XORBIT_ASSIGN_OR_RETURN(const HttpReplyHead head, ParseHttpReplyHead(Rest().substr(0, end + kHeadEnd.size())));
  at_ += end + kHeadEnd.size();
  if (head.status < 200) return true;  // the answer is still to come
  reply_.status = head.status;
  reply_.content_type = head.content_type;
  reply_.retry_after_seconds = head.retry_after_seconds;
  is_chunked_ = head.is_chunked;
  left_bytes_ = head.body_bytes.value_or(0);
  const bool has_body = head.status != 204 && head.status != 304;
  state_ = !has_body ? State::kDone : is_chunked_ ? State::kChunkSize : head.body_bytes ? State::kBody : State::kBodyToEnd;
  return true;
}

// `byte_count` more are to come, of which some are here.
Result<bool> HttpReplyReader::StepBody(uint64_t byte_count) {
  if (byte_count > kMaxHttpReplyBytes - reply_.body.size()) {
    return CorruptError("the answer is longer than 64 MiB");
  }
  const std::string_view here = Rest().substr(0, byte_count);
  reply_.body += here;
  at_ += here.size();
  left_bytes_ -= here.size();
  if (state_ == State::kBody && left_bytes_ == 0) {
    state_ = is_chunked_ ? State::kChunkEnd : State::kDone;
    return true;
  }
  return false;
}

// False if no line is whole yet.
Result<bool> HttpReplyReader::FindLine(std::string_view* line, uint64_t limit_bytes) {
  const size_t end = Rest().find(kLineEnd);
  if (IsTooLong(Rest(), end, kLineEnd, limit_bytes)) return CorruptError("a line between the answer's chunks is too long");
  if (end == std::string_view::npos) return false;
  *line = Rest().substr(0, end);
  at_ += end + kLineEnd.size();
  return true;
}

Result<bool> HttpReplyReader::StepChunkSize() {
  std::string_view line;
  XORBIT_ASSIGN_OR_RETURN(const bool found, FindLine(&line, kMaxChunkLineBytes));
  if (!found) return false;
  line = line.substr(0, line.find(';'));
  line = line.substr(0, line.find_last_not_of(" \t") + 1);
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), left_bytes_, 16);
  if (line.empty() || error != std::errc() || end != line.data() + line.size()) {
    return CorruptError("a chunk of the answer has no length");
  }
  state_ = left_bytes_ == 0 ? State::kTrailer : State::kBody;
  return true;
}

Result<bool> HttpReplyReader::StepTrailer() {
  std::string_view line;
  XORBIT_ASSIGN_OR_RETURN(const bool found, FindLine(&line, kMaxHttpHeadBytes - trailer_bytes_));
  if (!found) return false;
  trailer_bytes_ = std::min(kMaxHttpHeadBytes, trailer_bytes_ + line.size() + kLineEnd.size());
  if (line.empty()) state_ = State::kDone;
  return true;
}

Result<HttpReply> ParseHttpReply(std::string_view text) {
  HttpReplyReader reader;
  XORBIT_RETURN_IF_ERROR(reader.Take(text));
  XORBIT_RETURN_IF_ERROR(reader.End());
  return reader.reply();
}

}  // namespace xorbit
