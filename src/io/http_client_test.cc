// The HTTP client against a server of the test: what it says of a request afterwards, and that it never does more than it was asked.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "io/http.h"
#include "tests/support/http_server.h"

namespace onepen::testing {
namespace {

using io::HttpFault;
using io::HttpOptions;
using io::HttpRequest;
using Way = WebReply::Way;

HttpOptions quick() {
  HttpOptions options;
  options.connect_timeout = std::chrono::milliseconds(150);
  options.silence = std::chrono::milliseconds(150);
  options.slowest = 64u << 20;
  options.direct = true;
  return options;
}

TEST(HttpClient, an_exchange_goes_through_byte_for_byte_and_the_connection_is_kept) {
  HttpServer server(
      [](const WebRequest& request) { return WebReply{201, request.method + "|" + request.target + "|" + request.body, {{"X-Some-Thing", "  value "}}}; });
  const auto client = io::make_http_client({.direct = true});
  const std::string body("a\0b", 3);
  for (int i = 0; i < 3; ++i) {
    const auto answer = client->send({"PUT", server.url() + "/a/../b%20c?x=%2F&y", {{"X-Mine", "1"}, {"X-Empty", ""}}, as_bytes(body)});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->status, 201);
    EXPECT_EQ(as_text(answer->body), "PUT|/a/../b%20c?x=%2F&y|" + body) << "nothing is normalised on the way";
    EXPECT_EQ(answer->header("x-some-thing"), "value");
    EXPECT_EQ(answer->header("absent"), "");
  }
  EXPECT_EQ(server.connections(), 1u);
  const auto seen = server.requests().front();
  EXPECT_EQ(seen.header("x-mine"), "1");
  EXPECT_TRUE(seen.headers.contains("x-empty"));
  for (const auto* own : {"expect", "content-type", "accept", "user-agent"}) EXPECT_FALSE(seen.headers.contains(own)) << own;
}

TEST(HttpClient, empty_bodies_heads_and_deletes) {
  HttpServer server(
      [](const WebRequest& request) { return WebReply{request.method == "DELETE" ? 204 : 200, request.method == "PUT" ? "" : "0123456789", {}}; });
  const auto client = io::make_http_client(quick());
  ASSERT_TRUE(client->send({"PUT", server.url() + "/x"}));
  EXPECT_EQ(server.requests().back().header("content-length"), "0");
  const auto head = client->send({"HEAD", server.url() + "/x"});
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head->header("content-length"), "10");
  EXPECT_TRUE(head->body.empty());
  const auto gone = client->send({"DELETE", server.url() + "/x"});
  ASSERT_TRUE(gone) << gone.error().message;
  EXPECT_EQ(gone->status, 204);
  const auto got = client->send({"GET", server.url() + "/x"});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(as_text(got->body), "0123456789");
}

TEST(HttpClient, no_redirect_is_followed) {
  HttpServer server([&](const WebRequest&) { return WebReply{307, "", {{"Location", "/elsewhere"}}}; });
  const auto answer = io::make_http_client(quick())->send({"GET", server.url() + "/x"});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 307);
  EXPECT_EQ(answer->header("location"), "/elsewhere");
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(HttpClient, what_was_never_sent_is_told_from_what_may_have_arrived) {
  const auto client = io::make_http_client(quick());
  const auto refused = client->send({"PUT", "http://127.0.0.1:" + std::to_string(free_port()) + "/x", {}, as_bytes("body")});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, HttpFault::not_connected);
  EXPECT_FALSE(refused.error().may_have_arrived);
  const auto nowhere = client->send({"GET", "http://no-such-host.invalid/x"});
  ASSERT_FALSE(nowhere);
  EXPECT_FALSE(nowhere.error().may_have_arrived);

  std::atomic<Way> way{Way::no_answer};
  HttpServer server([&](const WebRequest&) { return WebReply{200, "0123456789", {}, way}; });
  const auto swallowed = client->send({"PUT", server.url() + "/x", {}, as_bytes("body")});
  ASSERT_FALSE(swallowed);
  EXPECT_EQ(swallowed.error().fault, HttpFault::broken);
  EXPECT_TRUE(swallowed.error().may_have_arrived);
  way = Way::silence;
  const auto silent = client->send({"PUT", server.url() + "/x", {}, as_bytes("body")});
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().fault, HttpFault::timed_out);
  EXPECT_TRUE(silent.error().may_have_arrived);
  way = Way::half_a_body;
  const auto half = client->send({"GET", server.url() + "/x"});
  ASSERT_FALSE(half) << "half a body is no answer";
  EXPECT_TRUE(half.error().may_have_arrived);
}

TEST(HttpClient, an_answer_longer_than_asked_for_is_refused) {
  HttpServer server([](const WebRequest& request) {
    return request.path() == "/head" ? WebReply{200, "", {{"X-Long", std::string(io::kMaxHttpHeaderBytes + 1, 'x')}}}
                                     : WebReply{200, std::string(100, 'x'), {}};
  });
  const auto client = io::make_http_client(quick());
  HttpRequest request{"GET", server.url() + "/body"};
  request.max_answer_bytes = 99;
  const auto longer = client->send(request);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().fault, HttpFault::too_large);
  request.max_answer_bytes = 100;
  EXPECT_TRUE(client->send(request));
  const auto head = client->send({"GET", server.url() + "/head"});
  ASSERT_FALSE(head);
  EXPECT_EQ(head.error().fault, HttpFault::too_large);
}

TEST(HttpClient, what_is_no_tls_is_told_as_such_and_nothing_was_sent) {
  HttpServer server([](const WebRequest&) { return WebReply{}; });
  const auto answer = io::make_http_client(quick())->send({"PUT", "https://" + server.url().substr(7) + "/x", {}, as_bytes("body")});
  ASSERT_FALSE(answer);
  EXPECT_FALSE(answer.error().may_have_arrived) << answer.error().message;
  auto options = quick();
  options.ca_file = "/nonexistent/bundle.pem";
  const auto no_bundle = io::make_http_client(options)->send({"GET", "https://" + server.url().substr(7) + "/x"});
  ASSERT_FALSE(no_bundle);
  EXPECT_EQ(no_bundle.error().fault, HttpFault::tls);
}

TEST(HttpClient, many_threads_share_a_few_connections) {
  std::atomic<int> now{0}, most{0};
  HttpServer server([&](const WebRequest& request) {
    const int mine = ++now;
    for (int seen = most; seen < mine && !most.compare_exchange_weak(seen, mine);) {
    }
    --now;
    return WebReply{200, request.target, {}};
  });
  const auto client = io::make_http_client({.connections = 2, .direct = true});
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        const std::string path = "/" + std::to_string(t) + "/" + std::to_string(i);
        const auto answer = client->send({"GET", server.url() + path});
        right += answer && as_text(answer->body) == path ? 1 : 0;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 40);
  EXPECT_LE(most, 2);
  EXPECT_LE(server.connections(), 2u);
}

}  // namespace
}  // namespace onepen::testing
