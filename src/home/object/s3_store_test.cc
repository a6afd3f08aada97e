// The S3 store against a bucket of the test on loopback: what it makes of answers, and of answers that never come.
#include "home/object/s3_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "home/object/bucket_codec.h"
#include "home/object/bucket_errors.h"
#include "io/system_runtime.h"
#include "tests/support/fake_s3.h"

namespace onepen::testing {
namespace {

using home::PutOutcome;
using home::RequestKind;
using Names = std::vector<std::string>;

class GivenKeys final : public home::AwsKeySource {
 public:
  explicit GivenKeys(int* refusals) : refusals_(refusals) {}
  Result<home::AwsKeys> keys() override { return home::AwsKeys{"the-key-id", "the-secret", *refusals_ > 0 ? "fresh-token" : "old-token"}; }
  void refused(const home::AwsKeys&) override { ++*refusals_; }

 private:
  int* refusals_;
};

class S3StoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<home::ObjectStore> open(home::S3Place place) {
    io::HttpOptions http;
    http.connect_timeout = http.silence = std::chrono::milliseconds(300);
    http.slowest = 1u << 30;
    http.direct = true;
    home::RetryPolicy retry;
    retry.first = std::chrono::milliseconds(1);
    retry.longest = std::chrono::milliseconds(2);
    retry.tries = 4;
    retry.tries_unanswered = 3;
    return home::make_s3_store(*runtime, std::move(place), {std::make_unique<GivenKeys>(&refusals), io::make_http_client(http), metrics, retry});
  }
  home::S3Place place() { return {.bucket = "bucket", .prefix = "pre", .endpoint = bucket.url(), .region = "eu-west-1", .path_style = true}; }
  std::uint64_t sent(RequestKind kind) { return metrics->of(kind).sent; }

  const std::unique_ptr<Runtime> runtime = io::make_system_runtime();
  const std::shared_ptr<home::BucketMetrics> metrics = std::make_shared<home::BucketMetrics>();
  int refusals = 0;
  FakeS3 bucket{"bucket"};
  const std::unique_ptr<home::ObjectStore> store = open(place());
};

TEST_F(S3StoreTest, objects_are_created_once_read_in_parts_listed_and_erased) {
  EXPECT_EQ(store->put_if_absent("app/@log/1", as_bytes("first")).value(), PutOutcome::created);
  EXPECT_EQ(store->put_if_absent("app/@log/1", as_bytes("second")).value(), PutOutcome::exists);
  EXPECT_EQ(bucket.objects().at("pre/app/@log/1"), "first");
  EXPECT_EQ(as_text(store->get("app/@log/1").value()), "first");
  EXPECT_EQ(as_text(store->get_range("app/@log/1", 1, 3).value()), "irs");
  EXPECT_EQ(as_text(store->get_range("app/@log/1", 3, 100).value()), "st");
  EXPECT_TRUE(store->get_range("app/@log/1", 5, 1).value().empty()) << "behind the end";
  EXPECT_TRUE(store->get_range("app/@log/1", 0, 0).value().empty());
  EXPECT_EQ(store->get("app/@log/2").error().outcome, Outcome::not_found);
  EXPECT_EQ(store->get_range("app/@log/2", 0, 1).error().outcome, Outcome::not_found);
  EXPECT_EQ(store->put_if_absent("app/@log/2", {}).value(), PutOutcome::created) << "an empty object is one";
  EXPECT_EQ(store->put_if_absent("app/@log/2", as_bytes("x")).value(), PutOutcome::exists);
  EXPECT_TRUE(store->put("app/@alive/x", as_bytes("1")));
  EXPECT_TRUE(store->put("app/@alive/x", as_bytes("2")));
  EXPECT_EQ(as_text(store->get("app/@alive/x").value()), "2");
  EXPECT_EQ(store->list("app", "", 10).value(), (Names{"@alive", "@log"}));
  EXPECT_EQ(store->list("app/@log", "", 10).value(), (Names{"1", "2"}));
  EXPECT_EQ(store->list("app/@log", "1", 10).value(), (Names{"2"}));
  EXPECT_EQ(store->list("", "", 10).value(), (Names{"app"}));
  EXPECT_EQ(store->list("nothing", "", 10).value(), Names{});
  EXPECT_TRUE(store->erase("app/@log/1"));
  EXPECT_TRUE(store->erase("app/@log/1")) << "absent is fine";
  EXPECT_EQ(store->list("app/@log", "", 10).value(), (Names{"2"}));
  EXPECT_EQ(store->describe(), "bucket s3://bucket/pre at " + bucket.url());
}

TEST_F(S3StoreTest, a_listing_goes_on_page_by_page_up_to_its_limit) {
  Names all;
  for (int i = 10; i < 35; ++i) {
    all.push_back(std::to_string(i));
    ASSERT_TRUE(store->put("f/" + all.back() + (i % 5 == 0 ? "/deeper" : ""), as_bytes("x")));
  }
  bucket.page = 4;
  EXPECT_EQ(store->list("f", "", 1000).value(), all);
  EXPECT_EQ(sent(RequestKind::list), 7u);
  EXPECT_EQ(store->list("f", "19", 3).value(), (Names{"20", "21", "22"}));
  EXPECT_EQ(store->list("f", "20", 2).value(), (Names{"21", "22"})) << "a folder is not listed after itself";
}

TEST_F(S3StoreTest, what_was_asked_is_signed_for_the_place_and_counted) {
  ASSERT_TRUE(store->put_if_absent("a", as_bytes("x")));
  ASSERT_TRUE(store->get("a"));
  const auto request = bucket.requests().front();
  EXPECT_EQ(request.target, "/bucket/pre/a");
  EXPECT_EQ(request.header("if-none-match"), "*");
  EXPECT_EQ(request.header("host"), bucket.url().substr(7));
  EXPECT_EQ(request.header("x-amz-content-sha256"), home::hex(home::sha256(as_bytes("x"))));
  EXPECT_NE(request.header("authorization").find("/eu-west-1/s3/aws4_request"), std::string::npos);
  EXPECT_NE(request.header("authorization").find("if-none-match"), std::string::npos) << "the condition is signed";
  EXPECT_EQ(sent(RequestKind::create), 1u);
  EXPECT_EQ(sent(RequestKind::get), 1u);
  EXPECT_EQ(metrics->sent(), 2u);
}

// --- a create whose fate is not known (B2, I4) ------------------------------------------------------------------------------------------------------------

TEST_F(S3StoreTest, a_create_whose_answer_is_lost_is_unknown_and_is_sent_once) {
  bucket.instead([this](const WebRequest& request) -> std::optional<WebReply> {
    auto done = bucket.answer(request);
    done.way = WebReply::Way::no_answer;
    return done;
  });
  EXPECT_EQ(store->put_if_absent("a", as_bytes("x")).value(), PutOutcome::unknown);
  EXPECT_EQ(sent(RequestKind::create), 1u) << "the home reads first";
  bucket.instead(nullptr);
  EXPECT_EQ(store->put_if_absent("a", as_bytes("x")).value(), PutOutcome::exists);
}

TEST_F(S3StoreTest, a_create_answered_by_a_fault_of_the_server_is_unknown) {
  for (const auto& reply : {FakeS3::error(500, "InternalError"), FakeS3::error(500, "UnknownError"), WebReply{502, "<html>bad gateway</html>"},
                            FakeS3::error(400, "RequestTimeout"), WebReply{403, "a proxy says no"}, WebReply{200, "", {}, WebReply::Way::silence}}) {
    bucket.next(reply);
    const auto put = store->put_if_absent("a", as_bytes("x"));
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_EQ(*put, PutOutcome::unknown) << reply.status << reply.body;
  }
  EXPECT_EQ(sent(RequestKind::create), 6u) << "each once";
}

TEST_F(S3StoreTest, a_create_that_was_throttled_or_met_another_is_sent_again) {
  bucket.next(FakeS3::error(503, "SlowDown"), 2);
  EXPECT_EQ(store->put_if_absent("a", as_bytes("x")).value(), PutOutcome::created);
  bucket.next(FakeS3::error(409, "ConditionalRequestConflict"), 1);
  EXPECT_EQ(store->put_if_absent("a", as_bytes("y")).value(), PutOutcome::exists);
  bucket.next(FakeS3::error(409, "ConditionalRequestConflict"), 100);
  EXPECT_EQ(store->put_if_absent("b", as_bytes("y")).value(), PutOutcome::unknown) << "decided by whoever reads it";
  bucket.next(FakeS3::error(503, "SlowDown"), 100);
  EXPECT_EQ(store->put_if_absent("c", as_bytes("y")).value(), PutOutcome::unknown);
  EXPECT_EQ(metrics->of(RequestKind::create).throttled, 2u + 4u);
}

TEST_F(S3StoreTest, a_refusal_of_a_later_attempt_says_nothing_of_an_earlier_one) {
  std::atomic<int> count{0};
  bucket.instead([&](const WebRequest&) { return ++count == 1 ? FakeS3::error(503, "SlowDown") : FakeS3::error(403, "AccessDenied"); });
  EXPECT_EQ(store->put_if_absent("a", as_bytes("x")).value(), PutOutcome::unknown);
  EXPECT_FALSE(store->put_if_absent("a", as_bytes("x"))) << "alone it is a definite refusal";
}

TEST_F(S3StoreTest, a_create_that_never_left_is_a_definite_refusal) {
  auto nowhere = place();
  nowhere.endpoint = "http://127.0.0.1:" + std::to_string(free_port());
  const auto put = open(nowhere)->put_if_absent("a", as_bytes("x"));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().outcome, Outcome::unavailable);
}

TEST(ShownKeyId, a_secret_in_the_place_of_the_key_id_is_not_shown) {
  EXPECT_EQ(home::shown_key_id("AKIAIOSFODNN7EXAMPLE"), "AKIAIOSFODNN7EXAMPLE");
  EXPECT_EQ(home::shown_key_id("user.name@example"), "user.name@example");
  for (const std::string secret : {"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMIxK7MDENGxbPxRfiCYEXAMPLEKEY", "short/one", "with space"})
    EXPECT_EQ(home::shown_key_id(secret).find(secret.substr(0, 5)), std::string::npos) << home::shown_key_id(secret);
}

TEST_F(S3StoreTest, where_no_byte_of_an_answer_ever_comes_it_is_given_up_sooner) {
  bucket.next(WebReply{200, "", {}, WebReply::Way::no_answer}, 3);
  const auto got = store->get("a");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().outcome, Outcome::unavailable);
  EXPECT_NE(got.error().message.find("https://"), std::string::npos) << "perhaps TLS is wanted there: " << got.error().message;
  EXPECT_EQ(sent(RequestKind::get), 3u);
  bucket.next(WebReply{200, "half", {}, WebReply::Way::half_a_body}, 4);
  EXPECT_FALSE(store->get("a"));
  EXPECT_EQ(sent(RequestKind::get), 7u) << "who begins to answer is asked as often as ever";
}

TEST_F(S3StoreTest, what_reads_overwrites_or_erases_is_sent_again_after_what_passes) {
  ASSERT_TRUE(store->put("a", as_bytes("x")));
  for (const auto& reply : {FakeS3::error(500, "InternalError"), FakeS3::error(503, "SlowDown"), WebReply{429, ""},
                            WebReply{200, "half", {}, WebReply::Way::half_a_body}, WebReply{200, "", {}, WebReply::Way::no_answer}}) {
    bucket.next(reply, 2);
    EXPECT_EQ(as_text(store->get("a").value()), "x");
    bucket.next(reply, 2);
    EXPECT_TRUE(store->put("a", as_bytes("x")));
    bucket.next(reply, 2);
    EXPECT_TRUE(store->list("", "", 10));
    bucket.next(reply, 2);
    EXPECT_TRUE(store->erase("b"));
  }
}

TEST_F(S3StoreTest, sixteen_creates_of_one_name_have_one_winner) {
  std::atomic<int> winners{0}, losers{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&, i] {
      const auto put = store->put_if_absent("a", as_bytes(std::to_string(i)));
      winners += put && *put == PutOutcome::created ? 1 : 0;
      losers += put && *put == PutOutcome::exists ? 1 : 0;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(winners, 1);
  EXPECT_EQ(losers, 15);
}

// --- another region, old keys ----------------------------------------------------------------------------------------------------------------------------

TEST_F(S3StoreTest, a_bucket_in_another_region_is_followed_by_signing_for_it) {
  const auto wrong = FakeS3::error(400, "AuthorizationHeaderMalformed", "<Region>us-west-2</Region>");
  bucket.instead([&](const WebRequest& request) -> std::optional<WebReply> {
    if (request.header("authorization").find("/us-west-2/") != std::string::npos) return std::nullopt;
    return wrong;
  });
  EXPECT_EQ(store->put_if_absent("a", as_bytes("x")).value(), PutOutcome::created);
  EXPECT_EQ(sent(RequestKind::create), 2u);
  ASSERT_TRUE(store->get("a"));
  EXPECT_EQ(sent(RequestKind::get), 1u) << "once";
  auto kept = place();
  kept.region_kept = true;
  const auto refused = open(kept)->get("a");
  ASSERT_FALSE(refused) << "the URL names the region";
  EXPECT_EQ(refused.error().outcome, Outcome::invalid);
  EXPECT_NE(refused.error().message.find("region=us-west-2"), std::string::npos) << refused.error().message;
}

TEST_F(S3StoreTest, keys_that_have_expired_are_asked_for_anew_once) {
  bucket.instead([&](const WebRequest& request) -> std::optional<WebReply> {
    if (request.header("x-amz-security-token") == "fresh-token") return std::nullopt;
    return FakeS3::error(400, "ExpiredToken");
  });
  EXPECT_EQ(store->put_if_absent("a", as_bytes("x")).value(), PutOutcome::created);
  EXPECT_EQ(refusals, 1);
  bucket.next(FakeS3::error(400, "ExpiredToken"), 100);
  const auto refused = store->put_if_absent("b", as_bytes("x"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().outcome, Outcome::unauthorised);
  EXPECT_EQ(refusals, 2);
}

// --- errors: what happened, to what, what to do ----------------------------------------------------------------------------------------------------------

struct Said {
  const char* name;
  WebReply reply;
  RequestKind kind;
  Outcome outcome;
  std::vector<std::string> words;
};

class S3Errors : public S3StoreTest {
 protected:
  std::optional<Error> ask(home::ObjectStore& at, RequestKind kind) {
    const auto error = [](const auto& result) { return result ? std::optional<Error>{} : std::optional<Error>(result.error()); };
    switch (kind) {
      case RequestKind::get: return error(at.get("app/@log/7"));
      case RequestKind::list: return error(at.list("app/@log", "", 10));
      case RequestKind::create: return error(at.put_if_absent("app/@log/7", as_bytes("x")));
      case RequestKind::put: return error(at.put("app/@log/7", as_bytes("x")));
      case RequestKind::erase: break;
    }
    return error(at.erase("app/@log/7"));
  }
  void expect(const std::optional<Error>& error, Outcome outcome, const std::vector<std::string>& words, const std::string& name) {
    ASSERT_TRUE(error) << name;
    EXPECT_EQ(error->outcome, outcome) << name << ": " << error->message;
    for (const auto& word : words) EXPECT_NE(error->message.find(word), std::string::npos) << name << ": '" << word << "' is not in: " << error->message;
    for (const auto* secret : {"the-secret", "old-token", "fresh-token", "Credential="})
      EXPECT_EQ(error->message.find(secret), std::string::npos) << name << ": " << error->message;
  }
};

TEST_F(S3Errors, each_names_what_happened_to_what_and_what_to_do) {
  const std::vector<Said> table{
      {"no such bucket, listed",
       FakeS3::error(404, "NoSuchBucket"),
       RequestKind::list,
       Outcome::not_found,
       {"bucket 'bucket'", "no such bucket", "create-bucket"}},
      {"no such bucket, read", FakeS3::error(404, "NoSuchBucket"), RequestKind::get, Outcome::unavailable, {"app/@log/7", "no such bucket"}},
      {"no such bucket, created", FakeS3::error(404, "NoSuchBucket"), RequestKind::create, Outcome::unavailable, {"no such bucket"}},
      {"wrong region, 301",
       FakeS3::error(301, "PermanentRedirect", "", {{"x-amz-bucket-region", "ap-south-1"}}),
       RequestKind::list,
       Outcome::invalid,
       {"ap-south-1", "region="}},
      {"wrong region, not told", FakeS3::error(301, "PermanentRedirect"), RequestKind::list, Outcome::invalid, {"eu-west-1", "AWS_REGION"}},
      {"expired", FakeS3::error(400, "ExpiredToken"), RequestKind::list, Outcome::unauthorised, {"expired", "aws sso login"}},
      {"unknown key", FakeS3::error(403, "InvalidAccessKeyId"), RequestKind::list, Outcome::unauthorised, {"the-key-id", "AWS_ACCESS_KEY_ID"}},
      {"wrong secret", FakeS3::error(403, "SignatureDoesNotMatch"), RequestKind::list, Outcome::unauthorised, {"the-key-id", "AWS_SECRET_ACCESS_KEY"}},
      {"may not read", FakeS3::error(403, "AccessDenied"), RequestKind::get, Outcome::unauthorised, {"s3:GetObject", "s3:ListBucket", "app/@log/7"}},
      {"may not list", FakeS3::error(403, "AccessDenied"), RequestKind::list, Outcome::unauthorised, {"s3:ListBucket"}},
      {"may not create", FakeS3::error(403, "AccessDenied"), RequestKind::create, Outcome::unauthorised, {"s3:PutObject"}},
      {"may not write", FakeS3::error(403, "AccessDenied"), RequestKind::put, Outcome::unauthorised, {"s3:PutObject"}},
      {"may not delete", FakeS3::error(403, "AccessDenied"), RequestKind::erase, Outcome::unauthorised, {"s3:DeleteObject"}},
      {"no conditions", FakeS3::error(501, "NotImplemented"), RequestKind::create, Outcome::invalid, {"If-None-Match", "another store"}},
      {"full", FakeS3::error(507, "InsufficientStorage"), RequestKind::create, Outcome::quota, {"full"}},
      {"throttled for minutes", FakeS3::error(503, "SlowDown"), RequestKind::get, Outcome::unavailable, {"throttles", "4 times", "503 SlowDown"}},
      {"broken", FakeS3::error(500, "InternalError"), RequestKind::list, Outcome::unavailable, {"500 InternalError", "4 times"}},
      {"no S3 at all", WebReply{404, "<html>nothing here</html>"}, RequestKind::get, Outcome::unavailable, {"none of S3's", bucket.url()}},
      {"a proxy", WebReply{407, "proxy"}, RequestKind::list, Outcome::unavailable, {"proxy"}},
      {"no listing", WebReply{200, "<html/>"}, RequestKind::list, Outcome::unavailable, {"no listing"}},
  };
  for (const auto& one : table) {
    bucket.next(one.reply, 100);
    const auto fresh = open(place());  // it has followed no region yet
    expect(ask(*fresh, one.kind), one.outcome, one.words, one.name);
  }
}

TEST_F(S3Errors, a_clock_that_is_off_is_told_with_how_much) {
  for (const auto& [seconds, words] : {std::pair{-3600 * 3, "3 h ahead"}, std::pair{20 * 60 + 30, "20 min behind"}}) {
    const auto theirs = home::http_date(runtime->wall_ms() + seconds * 1000LL);
    bucket.next(FakeS3::error(403, "RequestTimeTooSkewed", "", {{"Date", theirs}}), 100);
    for (const auto kind : {RequestKind::list, RequestKind::create}) expect(ask(*store, kind), Outcome::unavailable, {words, "timedatectl"}, words);
  }
}

TEST_F(S3Errors, an_endpoint_that_cannot_be_reached_is_told_by_how) {
  auto at = place();
  at.endpoint = "http://127.0.0.1:" + std::to_string(free_port());
  expect(ask(*open(at), RequestKind::list), Outcome::unavailable, {"nobody answers", at.endpoint}, "refused");
  at.endpoint = "http://no-such-host.invalid";
  expect(ask(*open(at), RequestKind::list), Outcome::unavailable, {"could not be resolved", "DNS"}, "name");
  at.endpoint = "https://" + bucket.url().substr(7);
  expect(ask(*open(at), RequestKind::create), Outcome::unavailable, {"AWS_CA_BUNDLE"}, "tls");
}

TEST_F(S3Errors, a_store_that_asks_for_more_time_than_there_is_gets_no_further_request) {
  bucket.next({503, "", {{"Retry-After", "3600"}}}, 100);
  expect(ask(*store, RequestKind::get), Outcome::unavailable, {"throttles", "1 time in"}, "retry-after");
  EXPECT_EQ(sent(RequestKind::get), 1u);
}

}  // namespace
}  // namespace onepen::testing
