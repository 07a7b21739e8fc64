// Request heads from whoever reaches the port: what is refused, and that random bytes end in an answer.
#include "transport/http_message.h"

#include <gtest/gtest.h>

#include <random>

#include "base/testing/seed.h"
#include "transport/http_client.h"

namespace xorbit {
namespace {

constexpr std::string_view kGoodHead =
    "POST /prepare_gpu_delta?mode=keep&x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\nAuthorization: Bearer abc\r\n"
    "X-Xorbit-Sync-Id: step-7\r\nExpect: 100-continue\r\n\r\n";

TEST(HttpMessageTest, ReadsAHead) {
  const auto head = ParseHttpHead(kGoodHead);
  ASSERT_TRUE(head.ok()) << head.status().message();
  EXPECT_EQ(head->request.method, "POST");
  EXPECT_EQ(head->request.path, "/prepare_gpu_delta");
  EXPECT_EQ(QueryValue(head->request.query, "mode"), "keep");
  EXPECT_EQ(QueryValue(head->request.query, "x"), "1");
  EXPECT_EQ(QueryValue(head->request.query, "y"), "");
  EXPECT_EQ(head->request.authorization, "Bearer abc");
  EXPECT_EQ(head->request.sync_id, "step-7");
  EXPECT_EQ(head->body_bytes, 12U);
  EXPECT_TRUE(head->expects_continue);
}

TEST(HttpMessageTest, RefusesWhatCouldBeReadInTwoWays) {
  for (const std::string_view head : {
           "",
           "\r\n\r\n",
           "GET /\r\n\r\n",
           "GET  / HTTP/1.1\r\n\r\n",
           "GET http://elsewhere/ HTTP/1.1\r\n\r\n",
           "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
           "GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
           "GET / HTTP/1.1\r\nContent-Length: 18446744073709551616\r\n\r\n",
           "GET / HTTP/1.1\r\nContent-Length : 1\r\n\r\n",
           "GET / HTTP/1.1\r\nA: b\r\n folded: c\r\n\r\n",
           "GET / HTTP/1.1\r\nno colon\r\n\r\n",
           "GET / HTTP/1.1\r\nA: b\nContent-Length: 1\r\n\r\n",
           "GET / HTTP/1.1\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n",
           "GET / HTTP/1.1\r\n\r\nmore",
           "GET / HTTP/1.1\r\nA: b\r\n",
       }) {
    EXPECT_EQ(ParseHttpHead(head).status().code(), Code::kCorrupt) << head;
  }
  EXPECT_EQ(ParseHttpHead("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").status().code(), Code::kUnsupported);
  EXPECT_EQ(ParseHttpHead("GET / HTTP/2.0\r\n\r\n").status().code(), Code::kUnsupported);
}

TEST(HttpMessageTest, RandomBytesAreReadOrRefused) {
  std::mt19937_64 random(TestSeed());
  size_t accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string head(kGoodHead);
    for (uint64_t flips = random() % 4; flips > 0; --flips) head[random() % head.size()] = static_cast<char>(random());
    if (random() % 4 == 0) head.resize(random() % head.size());
    const auto parsed = ParseHttpHead(head);
    if (!parsed.ok()) continue;
    ++accepted;
    EXPECT_TRUE(parsed->request.path.starts_with('/'));
    EXPECT_EQ(parsed->request.path.find_first_of(" \r\n"), std::string::npos);
  }
  EXPECT_GT(accepted, 0U);
}

TEST(HttpMessageTest, ReadsAddresses) {
  const auto endpoint = ParseHttpEndpoint("http://localhost:30000/");
  ASSERT_TRUE(endpoint.ok());
  EXPECT_EQ(endpoint->address, "127.0.0.1");
  EXPECT_EQ(endpoint->port, 30000);
  for (const std::string_view url : {"", "127.0.0.1:1", "https://127.0.0.1:1", "http://127.0.0.1", "http://127.0.0.1:0",
                                     "http://127.0.0.1:65536", "http://127.0.0.1:1/path"}) {
    EXPECT_EQ(ParseHttpEndpoint(url).status().code(), Code::kUsage) << url;
  }
}

}  // namespace
}  // namespace xorbit
