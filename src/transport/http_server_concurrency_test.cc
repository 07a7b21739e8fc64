// Clients that say nothing, or half of something, keep nobody else waiting.
#include "transport/http_server.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "transport/http_client.h"

namespace xorbit {
namespace {

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    HttpServerOptions options;
    options.threads = 2;
    options.body_limit_bytes = 100'000;
    options.receive_limit = std::chrono::minutes(10);  // longer than any test
    server_ = HttpServer::Listen("127.0.0.1", 0, options).value();
    thread_ = std::jthread([this] {
      const auto answer = [](const HttpRequest& request) { return HttpReply{200, request.path + " " + request.body}; };
      const auto refuse = [](int status, const std::string& why) { return HttpReply{status, why}; };
      EXPECT_TRUE(server_->Run(answer, refuse).ok());
    });
  }
  ~HttpServerTest() override { server_->Stop(); }

  static HttpDeadline Soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(60); }
  HttpSocket Connect(std::string_view text) {
    HttpSocket socket = HttpSocket::Connect("127.0.0.1", server_->port(), Soon()).value();
    EXPECT_TRUE(socket.Send(text, Soon()).ok());
    return socket;
  }
  static std::string ReadAll(HttpSocket& socket) {
    std::string text;
    while (socket.Receive(&text, 1 << 20, Soon()).value()) continue;
    return text;
  }
  void ExpectAnswer(const std::string& body) {
    HttpCall call;
    call.method = "POST";
    call.path = "/a";
    call.body = body;
    const auto reply = CallHttp({"127.0.0.1", server_->port()}, call, Soon());
    ASSERT_TRUE(reply.ok()) << reply.status().message();
    EXPECT_EQ(reply->body, "/a " + body);
  }

  std::unique_ptr<HttpServer> server_;
  std::jthread thread_;
};

TEST_F(HttpServerTest, WhoIsSlowKeepsNobodyWaiting) {
  const std::string head = "POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n";
  std::vector<HttpSocket> slow;
  for (int i = 0; i < 10; ++i) {
    for (const std::string& text : {std::string(), head, head + "\r\nab", head + "Expect: 100-continue\r\n\r\n"}) {
      slow.push_back(Connect(text));
    }
  }
  ExpectAnswer("now");
  ExpectAnswer(std::string(90'000, 'x'));
  // They are answered once they have said what they want.
  ASSERT_TRUE(slow[1].Send("\r\nabcd", Soon()).ok());
  ASSERT_TRUE(slow[2].Send("cd", Soon()).ok());
  ASSERT_TRUE(slow[3].Send("abcd", Soon()).ok());
  for (const int i : {1, 2}) EXPECT_TRUE(ReadAll(slow[i]).ends_with("/slow abcd"));
  const std::string both = ReadAll(slow[3]);
  EXPECT_TRUE(both.starts_with("HTTP/1.1 100") && both.ends_with("/slow abcd")) << both;
}

TEST_F(HttpServerTest, WhoHasWaitedLongestGivesWay) {
  std::vector<HttpSocket> idle;
  for (size_t i = 0; i < HttpReception::kMaxWaiting + 5; ++i) idle.push_back(Connect("GET "));
  EXPECT_EQ(ReadAll(idle.front()), "");  // it was closed
  ExpectAnswer("still");
}

TEST_F(HttpServerTest, RefusesWhatIsTooLongOrGoesOn) {
  const auto answer = [&](const std::string& text) {
    HttpSocket socket = Connect(text);
    return ReadAll(socket).substr(0, 12);
  };
  EXPECT_EQ(answer("GET /a HTTP/1.1\r\nHost: a\r\n\r\n"), "HTTP/1.1 200");
  EXPECT_EQ(answer("GET /a HTTP/1.1\r\nHost: a\r\n\r\nmore"), "HTTP/1.1 400");
  EXPECT_EQ(answer("nonsense\r\n\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(answer("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100001\r\n\r\n"), "HTTP/1.1 413");
  EXPECT_EQ(answer("GET /" + std::string(kMaxHttpHeadBytes, 'a')), "HTTP/1.1 431");
}

}  // namespace
}  // namespace xorbit
