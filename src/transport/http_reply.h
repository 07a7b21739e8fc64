// What a server answers, read as it comes in: whole as soon as its last byte is there, whether or not the server then closes
// the connection; with a length, in chunks, or up to the end; after any number of interim answers. Pure: http_client.h has the
// socket.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "transport/http_message.h"

namespace xorbit {

inline constexpr uint64_t kMaxHttpReplyBytes = uint64_t{64} << 20;

// One reply. Keeps no more than its body and a few KiB.
class HttpReplyReader {
 public:
  // The next bytes that came. kCorrupt for what is no HTTP, goes on after its end, or is longer than 64 MiB; kUnsupported for
  // other encodings than chunks. After an error there is nothing to be had.
  Status Take(std::string_view bytes);
  // The server has closed the connection: kIo if it has answered nothing, kCorrupt if that cuts the reply off.
  Status End();
  bool is_done() const { return state_ == State::kDone; }
  const HttpReply& reply() const { return reply_; }  // once done

 private:
  enum class State : uint8_t { kHead, kBody, kBodyToEnd, kChunkSize, kChunkEnd, kTrailer, kDone };

  std::string_view Rest() const { return std::string_view(pending_).substr(at_); }
  Result<bool> Step();
  Result<bool> StepHead();
  Result<bool> StepBody(uint64_t byte_count);
  Result<bool> StepChunkSize();
  Result<bool> StepTrailer();
  Result<bool> FindLine(std::string_view* line, uint64_t limit_bytes);

  State state_ = State::kHead;
  std::string pending_;  // not read yet, from at_ on
  size_t at_ = 0;
  HttpReply reply_;
  bool is_chunked_ = false;
  uint64_t left_bytes_ = 0;  // of the body, or of the chunk
  uint64_t trailer_bytes_ = 0;
};

// All that a server sent before it closed the connection, as one reply. Errors as of the reader.
Result<HttpReply> ParseHttpReply(std::string_view text);

}  // namespace xorbit
