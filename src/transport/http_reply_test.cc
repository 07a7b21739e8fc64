// Replies as servers send them, cut into pieces anywhere: read when they are whole, and refused when they never are.
#include "transport/http_reply.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <optional>
#include <string>
#include <thread>

#include "transport/http_client.h"

namespace xorbit {
namespace {

// The reply, if it is whole without the end of the connection.
std::optional<std::string> BodyOf(std::string_view text, size_t piece_bytes) {
  HttpReplyReader reader;
  for (size_t at = 0; at < text.size(); at += piece_bytes) {
    const Status status = reader.Take(text.substr(at, piece_bytes));
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(reader.is_done(), at + piece_bytes >= text.size()) << at;
  }
  return reader.is_done() ? std::optional(reader.reply().body) : std::nullopt;
}

TEST(HttpReplyTest, AReplyIsReadAsItWasWritten) {
  HttpReply reply;
  reply.status = 409;
  reply.body = "{\"success\":false}\n";
  reply.retry_after_seconds = 7;
  const std::string text = WriteHttpReply(reply);
  const auto read = ParseHttpReply(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->status, 409);
  EXPECT_EQ(read->body, reply.body);
  EXPECT_EQ(read->retry_after_seconds, 7);
  EXPECT_EQ(read->content_type, "application/json");
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(ParseHttpReply(text.substr(0, size)).ok()) << size;
}

TEST(HttpReplyTest, IsWholeWithoutTheEndOfTheConnection) {
  const std::string replies[] = {
      "HTTP/1.1 200 OK\r\nContent-Length: 16\r\nConnection: keep-alive\r\n\r\n{\"success\":true}",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;a=b\r\n{\"su\r\nC\r\nccess\":true}\r\n0\r\nA: b\r\n\r\n",
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Wait\r\nA: b\r\n\r\n"
      "HTTP/1.1 200\r\nContent-Length: 16\r\n\r\n{\"success\":true}",
  };
  for (const std::string& text : replies) {
    for (const size_t piece_bytes : {size_t{1}, size_t{3}, text.size()}) {
      EXPECT_EQ(BodyOf(text, piece_bytes), "{\"success\":true}") << text;
    }
  }
  EXPECT_EQ(BodyOf("HTTP/1.1 204 No Content\r\n\r\n", 1), "");
  EXPECT_EQ(BodyOf("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1), "");
  EXPECT_EQ(ParseHttpReply("HTTP/1.0 200 OK\r\n\r\nup to the end").value().body, "up to the end");
}

TEST(HttpReplyTest, RefusesWhatIsNoReplyOrHasTwoReadings) {
  for (const std::string_view text : {
           "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
           "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
           "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
           "HTTP/1.1 99 OK\r\n\r\n",
           "HTTP/1.1 2000 OK\r\n\r\n",
           "HTTP/1.1 100 Continue\r\n\r\n",
           "SSH-2.0-OpenSSH_9.6\r\n",
       }) {
    EXPECT_FALSE(ParseHttpReply(text).ok()) << text;
  }
  EXPECT_EQ(ParseHttpReply("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n").status().code(), Code::kUnsupported);
  EXPECT_EQ(ParseHttpReply("").status().message(), "the connection was closed without an answer");
  HttpReplyReader reader;  // at once, not by the deadline
  EXPECT_FALSE(reader.Take("rubbish").ok());
  HttpReplyReader endless;
  EXPECT_FALSE(endless.Take("HTTP/1.1 200 OK\r\nA: " + std::string(kMaxHttpHeadBytes, 'a')).ok());
}

TEST(HttpReplyTest, TheClientDoesNotWaitForTheServerToClose) {
  const UniqueFd listener = ListenOn("127.0.0.1", 0).value();
  const HttpDeadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto reply = [&] {
    HttpSocket server;
    const std::jthread answering([&] {
      pollfd polled{listener.get(), POLLIN, 0};
      EXPECT_EQ(::poll(&polled, 1, 60'000), 1);
      server = HttpSocket(AcceptNext(listener));
      EXPECT_TRUE(server.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", deadline).ok());
    });
    return CallHttp({"127.0.0.1", PortOf(listener).value()}, {"GET", "/", "", "", ""}, deadline);
  }();
  ASSERT_TRUE(reply.ok()) << reply.status().message();
  EXPECT_EQ(reply->body, "{}");
}

}  // namespace
}  // namespace xorbit
