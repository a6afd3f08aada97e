// The Azure store against a container of the test on loopback, and its signatures against values that were reckoned without it.
#include "home/object/azure_store.h"

#include <gtest/gtest.h>

#include "home/object/bucket_codec.h"
#include "io/system_runtime.h"
#include "tests/support/http_server.h"

namespace onepen::testing {
namespace {

using home::AzureKeys;
using home::PutOutcome;
using home::RequestKind;
using Names = std::vector<std::string>;

WebReply azure_says(int status, const std::string& code, std::vector<std::pair<std::string, std::string>> headers = {}) {
  return {status, "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>" + code + "</Code><Message>said so</Message></Error>",
          std::move(headers)};
}

class AzureStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<home::ObjectStore> open(AzureKeys keys) {
    io::HttpOptions http;
    http.connect_timeout = http.silence = std::chrono::milliseconds(300);
    http.slowest = 1u << 30;
    http.direct = true;
    home::RetryPolicy retry;
    retry.first = std::chrono::milliseconds(1);
    retry.longest = std::chrono::milliseconds(2);
    retry.tries = 3;
    return home::make_azure_store(*runtime, {"box", "pre", server.url() + "/acct"}, [keys] { return keys; }, {io::make_http_client(http), metrics, retry});
  }
  WebReply answer(const WebRequest& request) {
    const std::lock_guard lock(mutex);
    if (next && times-- > 0) return *next;
    const auto path = home::percent_decoded(request.path()).value();
    if (path == "/acct/box") return list(request.query());
    const auto at = objects.find(path);
    if (request.method == "PUT") {
      if (request.header("if-none-match") == "*" && at != objects.end()) return azure_says(409, "BlobAlreadyExists");
      objects[path] = request.body;
      return {201, "", {}};
    }
    if (at == objects.end()) return azure_says(404, "BlobNotFound");
    if (request.method == "DELETE") return objects.erase(at), WebReply{202, "", {}};
    const auto range = request.header("range");
    if (range.empty()) return {200, at->second, {}};
    const auto from = std::stoull(range.substr(6)), to = std::stoull(range.substr(range.find('-') + 1));
    return from >= at->second.size() ? azure_says(416, "InvalidRange") : WebReply{206, at->second.substr(from, to - from + 1), {}};
  }
  WebReply list(const std::string& query) const {  // pages of two; the marker is a number
    const std::string prefix = query.find("prefix=pre%2Flog%2F") != std::string::npos ? "/acct/box/pre/log/" : "/acct/box/pre/";
    const auto marker = query.find("marker=");
    std::size_t skip = marker == std::string::npos ? 0 : std::stoul(query.substr(marker + 7)), number = 0;
    std::string blobs, next_marker;
    std::string last;
    for (const auto& [path, body] : objects) {
      if (!path.starts_with(prefix)) continue;
      const auto deeper = path.find('/', prefix.size());
      const auto name = path.substr(0, deeper == std::string::npos ? deeper : deeper + 1);
      if (name == last) continue;
      last = name;
      if (number++ < skip) continue;
      if (number > skip + 2) {
        next_marker = std::to_string(skip + 2);
        break;
      }
      const std::string tag = deeper == std::string::npos ? "Blob" : "BlobPrefix";
      blobs += "<" + tag + "><Name>" + name.substr(std::string("/acct/box/").size()) + "</Name></" + tag + ">";
    }
    return {200,
            "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults><Blobs>" + blobs + "</Blobs><NextMarker>" + next_marker +
                "</NextMarker></EnumerationResults>",
            {}};
  }
  void say(WebReply reply, int how_often = 100) {
    const std::lock_guard lock(mutex);
    next = std::move(reply);
    times = how_often;
  }

  const std::unique_ptr<Runtime> runtime = io::make_system_runtime();
  const std::shared_ptr<home::BucketMetrics> metrics = std::make_shared<home::BucketMetrics>();
  std::mutex mutex;
  std::map<std::string, std::string> objects;
  std::optional<WebReply> next;
  int times = 0;
  HttpServer server{[this](const WebRequest& request) { return answer(request); }};
  const std::unique_ptr<home::ObjectStore> store = open({"acct", "the-account-key", "", ""});
};

TEST_F(AzureStoreTest, objects_are_created_once_read_in_parts_listed_and_erased) {
  EXPECT_EQ(store->put_if_absent("log/1", as_bytes("first")).value(), PutOutcome::created);
  EXPECT_EQ(store->put_if_absent("log/1", as_bytes("second")).value(), PutOutcome::exists);
  EXPECT_EQ(store->put_if_absent("log/2", {}).value(), PutOutcome::created);
  EXPECT_EQ(as_text(store->get("log/1").value()), "first");
  EXPECT_EQ(as_text(store->get_range("log/1", 1, 3).value()), "irs");
  EXPECT_TRUE(store->get_range("log/1", 9, 3).value().empty());
  EXPECT_EQ(store->get("log/9").error().outcome, Outcome::not_found);
  EXPECT_TRUE(store->put("alive", as_bytes("1")));
  for (const auto* more : {"log/3", "log/4", "log/5", "log/6/deeper"}) ASSERT_TRUE(store->put(more, as_bytes("x")));
  EXPECT_EQ(store->list("log", "", 100).value(), (Names{"1", "2", "3", "4", "5", "6"}));
  EXPECT_EQ(store->list("log", "3", 2).value(), (Names{"4", "5"})) << "what lies before is read and left out";
  EXPECT_EQ(store->list("log", "6", 2).value(), Names{});
  EXPECT_EQ(store->list("", "", 100).value(), (Names{"alive", "log"}));
  EXPECT_TRUE(store->erase("log/1"));
  EXPECT_TRUE(store->erase("log/1")) << "absent is fine";
  const auto seen = server.requests().front();
  EXPECT_EQ(seen.header("x-ms-blob-type"), "BlockBlob");
  EXPECT_TRUE(seen.header("authorization").starts_with("SharedKey acct:"));
  EXPECT_EQ(metrics->of(RequestKind::create).sent, 3u);
}

TEST_F(AzureStoreTest, a_create_whose_fate_is_not_known_is_unknown) {
  for (const auto& reply : {WebReply{201, "", {}, WebReply::Way::no_answer}, azure_says(500, "InternalError"), azure_says(500, "OperationTimedOut"),
                            WebReply{502, "a proxy"}, WebReply{403, "a proxy"}, azure_says(503, "ServerBusy")}) {
    say(reply);
    const auto put = store->put_if_absent("log/1", as_bytes("x"));
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_EQ(*put, PutOutcome::unknown) << reply.status;
  }
  say(azure_says(503, "ServerBusy"), 1);
  EXPECT_EQ(store->put_if_absent("log/1", as_bytes("x")).value(), PutOutcome::created) << "asked later, as it wanted";
}

TEST_F(AzureStoreTest, errors_say_what_happened_to_what_and_what_to_do) {
  struct Row {
    WebReply reply;
    Outcome list, create;
    std::vector<std::string> words;
  };
  const auto off = home::http_date(runtime->wall_ms() + 3600 * 1000);
  const std::vector<Row> table{
      {azure_says(404, "ContainerNotFound"), Outcome::not_found, Outcome::unavailable, {"container 'box'", "no such container"}},
      {azure_says(403, "AuthenticationFailed"), Outcome::unauthorised, Outcome::unauthorised, {"account acct", "AZURE_STORAGE_KEY"}},
      {azure_says(403, "AuthenticationFailed", {{"Date", off}}), Outcome::unavailable, Outcome::unavailable, {"clock is 59 min behind"}},
      {azure_says(403, "AuthorizationPermissionMismatch"), Outcome::unauthorised, Outcome::unauthorised, {"SAS"}},
      {azure_says(413, "RequestBodyTooLarge"), Outcome::too_large, Outcome::too_large, {"size"}},
      {azure_says(400, "InvalidResourceName"), Outcome::invalid, Outcome::invalid, {"name"}},
  };
  for (const auto& row : table) {
    say(row.reply);
    const auto listed = store->list("log", "", 10);
    const auto created = store->put_if_absent("log/1", as_bytes("x"));
    ASSERT_FALSE(listed);
    ASSERT_FALSE(created);
    EXPECT_EQ(listed.error().outcome, row.list) << listed.error().message;
    EXPECT_EQ(created.error().outcome, row.create) << created.error().message;
    for (const auto& word : row.words) EXPECT_NE(listed.error().message.find(word), std::string::npos) << word << ": " << listed.error().message;
    EXPECT_EQ(listed.error().message.find("the-account-key"), std::string::npos);
    EXPECT_EQ(store->get("log/1").error().outcome == Outcome::not_found, false) << "only BlobNotFound is an object that is not there";
  }
  say(azure_says(503, "ServerBusy"));
  const auto throttled = store->get("log/1");
  ASSERT_FALSE(throttled);
  EXPECT_EQ(throttled.error().outcome, Outcome::unavailable);
  EXPECT_NE(throttled.error().message.find("throttles its clients (asked 3 times"), std::string::npos) << throttled.error().message;
}

TEST_F(AzureStoreTest, a_sas_goes_into_the_query_and_into_no_message) {
  const auto with_sas = open({"acct", "", "sv=2020-10-02&sig=SECRET%3D", ""});
  ASSERT_TRUE(with_sas->put("log/1", as_bytes("x")));
  EXPECT_TRUE(with_sas->list("log", "", 10));
  EXPECT_EQ(server.requests().front().target, "/acct/box/pre/log/1?sv=2020-10-02&sig=SECRET%3D");
  EXPECT_EQ(server.requests().front().header("authorization"), "");
  say(azure_says(403, "AuthenticationFailed"));
  EXPECT_EQ(with_sas->get("log/1").error().message.find("SECRET"), std::string::npos);
}

TEST(AzureKeysTest, where_they_come_from) {
  std::map<std::string, std::string> variables;
  const home::Environment environment = [&](const char* name) { return variables[name]; };
  EXPECT_EQ(home::azure_keys(environment, "", "acct").error().outcome, Outcome::unauthorised);
  variables["AZURE_STORAGE_SAS_TOKEN"] = "?sv=1&sig=x";
  EXPECT_EQ(home::azure_keys(environment, "", "").error().outcome, Outcome::unauthorised) << "no account";
  EXPECT_EQ(home::azure_keys(environment, "", "acct").value().sas, "sv=1&sig=x");
  variables["AZURE_STORAGE_KEY"] = "Zm9vYg==";
  variables["AZURE_STORAGE_ACCOUNT"] = "of-env";
  EXPECT_EQ(home::azure_keys(environment, "", "").value().key, "foob");
  EXPECT_EQ(home::azure_keys(environment, "", "acct").value().account, "acct") << "the URL's";
  variables["AZURE_STORAGE_CONNECTION_STRING"] = "DefaultEndpointsProtocol=https;AccountName=of-string;AccountKey=Zm9v;EndpointSuffix=core.example.net";
  variables["AZURE_STORAGE_ACCOUNT"] = "";
  const auto of_string = home::azure_keys(environment, "", "").value();
  EXPECT_EQ(of_string.account, "of-string");
  EXPECT_EQ(of_string.key, "foo");
  EXPECT_EQ(of_string.endpoint, "https://of-string.blob.core.example.net");
  EXPECT_EQ(home::azure_keys(environment, "BlobEndpoint=http://127.0.0.1:1/a;SharedAccessSignature=sv=1&sig=y;AccountName=a", "").value().sas, "sv=1&sig=y");
  for (const auto* bad : {"a-key-of-nobody", "AccountName=x;AccountKey=!!"}) {
    const auto refused = home::azure_keys(environment, bad, "acct");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message.find(bad), std::string::npos) << "it may be a secret";
  }
}

TEST(AzureSignature, as_reckoned_by_hand) {
  const AzureKeys keys{"acct", "0123456789abcdef0123456789abcdef", "", ""};
  const std::vector<io::HttpHeader> headers{
      {"x-ms-blob-type", "BlockBlob"}, {"If-None-Match", "*"}, {"x-ms-date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-ms-version", "2020-10-02"}};
  EXPECT_EQ(home::azure_authorization(keys, "PUT", "/acct/box/pre/%40log/1", {}, headers, 5), "SharedKey acct:eeQcUt4S4HYXh18AkS+7cSHnvq7AVj+g7v3um7z3+0o=");
  EXPECT_EQ(home::azure_authorization(keys, "GET", "/box", {{"restype", "container"}, {"comp", "list"}, {"prefix", "a b/"}},
                                      {{"x-ms-version", "2020-10-02"}, {"x-ms-date", "Fri, 24 May 2013 00:00:00 GMT"}}, 0),
            "SharedKey acct:cekn2EUJdted3MWren+5gAfiABu2tV3VIxicIZDUiVg=");
}

}  // namespace
}  // namespace onepen::testing
