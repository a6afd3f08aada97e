// Where credentials of buckets come from: environment, shared files, and endpoints of the test's own on loopback. Never a secret in a sentence.
#include "home/object/bucket_credentials.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "home/object/azure_identity.h"
#include "home/object/azure_store.h"
#include "home/object/bucket_place.h"
#include "home/object/bucket_xml.h"
#include "io/system_runtime.h"
#include "tests/support/http_server.h"
#include "tests/support/temp_folder.h"

namespace onepen::testing {
namespace {

using home::AwsKeys;

class Credentials : public ::testing::Test {
 protected:
  Credentials() {
    variables["HOME"] = folder.path();
    variables["AWS_EC2_METADATA_DISABLED"] = "true";
    std::filesystem::create_directory(folder.path() + "/.aws");
  }
  std::unique_ptr<home::AwsKeySource> source(const std::string& credential = "") {
    io::HttpOptions http;
    http.connect_timeout = http.silence = std::chrono::milliseconds(300);
    http.direct = true;
    return home::make_aws_key_source(*runtime, environment(), credential, {io::make_http_client(http), io::make_http_client(http)});
  }
  home::Environment environment() {
    return [this](const char* name) {
      const auto at = variables.find(name);
      return at == variables.end() ? std::string() : at->second;
    };
  }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder.path() + "/" + name) << text; }
  void expect_none(const std::vector<std::string>& words) {
    const auto keys = source()->keys();
    ASSERT_FALSE(keys);
    EXPECT_EQ(keys.error().outcome, Outcome::unauthorised);
    for (const auto& word : words) EXPECT_NE(keys.error().message.find(word), std::string::npos) << word << ": " << keys.error().message;
    EXPECT_EQ(keys.error().message.find("SECRET-"), std::string::npos) << keys.error().message;
  }

  const std::unique_ptr<Runtime> runtime = io::make_system_runtime();
  const TempFolder folder;
  std::map<std::string, std::string> variables;
};

TEST_F(Credentials, what_the_program_or_the_environment_gave_comes_first) {
  write(".aws/credentials", "[default]\naws_access_key_id = FILE\naws_secret_access_key = SECRET-file\n");
  EXPECT_EQ(source()->keys().value(), (AwsKeys{"FILE", "SECRET-file"}));
  variables["AWS_ACCESS_KEY_ID"] = "ENV";
  variables["AWS_SECRET_ACCESS_KEY"] = "SECRET-env";
  variables["AWS_SESSION_TOKEN"] = "token";
  EXPECT_EQ(source()->keys().value(), (AwsKeys{"ENV", "SECRET-env", "token"}));
  variables["ONEPEN_CREDENTIAL"] = "OWN:SECRET-own";
  EXPECT_EQ(source()->keys().value(), (AwsKeys{"OWN", "SECRET-own"}));
  EXPECT_EQ(source("GIVEN:SECRET-given:its/token==")->keys().value(), (AwsKeys{"GIVEN", "SECRET-given", "its/token=="}));
  variables["ONEPEN_CREDENTIAL"] = "SECRET-alone";
  expect_none({"KEY_ID:SECRET"});
}

TEST_F(Credentials, half_of_a_pair_is_an_error) {
  variables["AWS_SECRET_ACCESS_KEY"] = "SECRET-env";
  expect_none({"AWS_SECRET_ACCESS_KEY is set and AWS_ACCESS_KEY_ID is not"});
}

TEST_F(Credentials, shared_files_and_profiles) {
  write(
      ".aws/credentials",
      "# comment\n[default]\naws_access_key_id = D\naws_secret_access_key=SECRET-d\n\n[ci]\naws_access_key_id=C\naws_secret_access_key = SECRET-c=+/\naws_session_token = t\n");
  write(
      ".aws/config",
      "[default]\nregion = eu-west-1\n[profile ci]\nregion=ap-south-1\nendpoint_url = http://127.0.0.1:1\ns3 =\n    region = nested\n"
      "[profile only-config]\naws_access_key_id=O\naws_secret_access_key=SECRET-o\n[profile role]\nrole_arn = arn:x\nsource_profile = ci\n[ci]\nregion = not-here\n");
  EXPECT_EQ(source()->keys().value().key_id, "D");
  EXPECT_EQ(home::aws_region(environment()), "eu-west-1");
  variables["AWS_PROFILE"] = "ci";
  EXPECT_EQ(source()->keys().value(), (AwsKeys{"C", "SECRET-c=+/", "t"}));
  EXPECT_EQ(home::aws_region(environment()), "ap-south-1");
  EXPECT_EQ(home::aws_endpoint(environment()), "http://127.0.0.1:1");
  variables["AWS_REGION"] = "us-east-2";
  variables["AWS_ENDPOINT_URL"] = "http://127.0.0.1:2";
  EXPECT_EQ(home::aws_region(environment()), "us-east-2");
  EXPECT_EQ(home::aws_endpoint(environment()), "http://127.0.0.1:2");
  variables["AWS_ENDPOINT_URL_S3"] = "http://127.0.0.1:3";
  EXPECT_EQ(home::aws_endpoint(environment()), "http://127.0.0.1:3");
  variables["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true";
  EXPECT_EQ(home::aws_endpoint(environment()), "");
  variables["AWS_PROFILE"] = "only-config";
  EXPECT_EQ(source()->keys().value().key_id, "O");
  variables["AWS_PROFILE"] = "role";
  expect_none({"'role'", "role_arn", "export-credentials"});
  variables["AWS_PROFILE"] = "missing";
  expect_none({"'missing'", "AWS_PROFILE"});
  variables["AWS_PROFILE"] = "";
  write("elsewhere", "[default]\naws_access_key_id=E\naws_secret_access_key=SECRET-e\n");
  variables["AWS_SHARED_CREDENTIALS_FILE"] = folder.path() + "/elsewhere";
  EXPECT_EQ(source()->keys().value().key_id, "E");
}

TEST_F(Credentials, nothing_anywhere_says_where_was_looked) {
  expect_none({"ONEPEN_CREDENTIAL", "AWS_ACCESS_KEY_ID", "'default'", "AWS_EC2_METADATA_DISABLED"});
}

std::string sts_says(const std::string& id, const std::string& expires) {
  return "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult><Credentials><SessionToken>T</SessionToken>"
         "<SecretAccessKey>SECRET-s</SecretAccessKey><Expiration>" +
         expires + "</Expiration><AccessKeyId>" + id + "</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
}

TEST_F(Credentials, a_web_identity_is_shown_to_sts_and_its_keys_are_kept_until_they_expire) {
  std::string expires = "2999-01-01T00:00:00Z";
  std::atomic<int> answers{0};
  HttpServer sts([&](const WebRequest& request) {
    if (request.body.find("&WebIdentityToken=SECRET-token%2B1") == std::string::npos)
      return WebReply{
          400, "<ErrorResponse><Error><Type>Sender</Type><Code>InvalidIdentityToken</Code><Message>not one of ours</Message></Error></ErrorResponse>", {}};
    return WebReply{200, sts_says("W" + std::to_string(++answers), expires), {}};
  });
  write(".aws/credentials", "[default]\naws_access_key_id = FILE\naws_secret_access_key = SECRET-file\n");
  write("token", "SECRET-token+1\n");
  variables["AWS_ENDPOINT_URL_STS"] = sts.url() + "/";
  variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = folder.path() + "/token";
  expect_none({"AWS_ROLE_ARN is not"});
  variables["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/pen";
  const auto keys = source();
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(keys->keys().value(), (AwsKeys{"W1", "SECRET-s", "T", 32'472'144'000'000})) << "before the keys of a profile, and asked for once";
  const auto seen = sts.requests();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].method + " " + seen[0].target, "POST /");
  EXPECT_EQ(seen[0].header("content-type"), "application/x-www-form-urlencoded");
  EXPECT_EQ(
      seen[0].body,
      "Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fpen&RoleSessionName=onepen&Version=2011-06-15&WebIdentityToken=SECRET-token%2B1");
  keys->refused(keys->keys().value());
  EXPECT_EQ(keys->keys().value().key_id, "W2") << "the store says they have expired";
  variables["AWS_ACCESS_KEY_ID"] = "ENV";
  variables["AWS_SECRET_ACCESS_KEY"] = "SECRET-env";
  EXPECT_EQ(source()->keys().value().key_id, "ENV") << "keys of the environment go first";
  variables["AWS_ACCESS_KEY_ID"] = variables["AWS_SECRET_ACCESS_KEY"] = "";
  write("token", "SECRET-another");
  expect_none({"arn:aws:iam::1:role/pen", "InvalidIdentityToken", "not one of ours", "trust policy"});
  write("token", " \n");
  expect_none({folder.path() + "/token", "empty"});
  write("token", "SECRET-token+1");
  variables["AWS_ENDPOINT_URL_STS"] = "http://sts.example.net";
  expect_none({"neither https nor an address of this machine"});
}

TEST_F(Credentials, a_web_identity_of_a_profile) {
  HttpServer sts([&](const WebRequest& request) {
    EXPECT_NE(request.body.find("RoleSessionName=mine"), std::string::npos) << request.body;
    return WebReply{200, sts_says("P", ""), {}};
  });
  write("token", "t");
  write(".aws/config", "[profile pod]\nrole_arn = arn:r\nrole_session_name = mine\nweb_identity_token_file = " + folder.path() + "/token\n");
  variables["AWS_ENDPOINT_URL"] = sts.url();
  variables["AWS_PROFILE"] = "pod";
  EXPECT_EQ(source()->keys().value().key_id, "P");
  for (const auto* nothing : {"", "<html/>", "<AssumeRoleWithWebIdentityResponse/>", "<ErrorResponse/>"})
    EXPECT_FALSE(home::parse_sts_answer(as_bytes(nothing))) << nothing;
}

TEST_F(Credentials, where_sts_is) {
  EXPECT_EQ(home::sts_endpoint(environment()), "https://sts.us-east-1.amazonaws.com");
  variables["AWS_REGION"] = "cn-north-1";
  EXPECT_EQ(home::sts_endpoint(environment()), "https://sts.cn-north-1.amazonaws.com.cn");
  variables["AWS_ENDPOINT_URL"] = "https://all.example.net";
  EXPECT_EQ(home::sts_endpoint(environment()), "https://all.example.net");
  variables["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true";
  EXPECT_EQ(home::sts_endpoint(environment()), "https://sts.cn-north-1.amazonaws.com.cn");
}

std::string answer_of(const std::string& id, const std::string& expires) {
  return R"({"Code":"Success","AccessKeyId":")" + id + R"(","SecretAccessKey":"SECRET-x","Token":"T","Expiration":")" + expires + "\"}";
}

TEST_F(Credentials, the_container_s_endpoint_is_asked_with_its_token_and_seldom) {
  HttpServer server([](const WebRequest& request) {
    if (request.header("authorization") != "Bearer it") return WebReply{401, "SECRET-denied", {}};
    return WebReply{200, answer_of("CONTAINER", "2999-01-01T00:00:00Z"), {}};
  });
  variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = server.url() + "/keys?x=1";
  expect_none({"container", "401"});
  write("token", "Bearer it\n");
  variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = folder.path() + "/token";
  const auto keys = source();
  for (int i = 0; i < 3; ++i) {
    const auto got = keys->keys();
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->key_id, "CONTAINER");
    EXPECT_EQ(got->session_token, "T");
  }
  EXPECT_EQ(server.requests().size(), 2u) << "one that was refused, and one";
  keys->refused(keys->keys().value());
  ASSERT_TRUE(keys->keys());
  EXPECT_EQ(server.requests().size(), 3u) << "the store says they have expired";
  for (const auto* elsewhere : {"http://198.51.100.7/keys", "http://localhost.example.net/keys", "ftp://127.0.0.1/keys"}) {
    variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = elsewhere;
    expect_none({"not asked"});
  }
}

class AzureIdentityTest : public Credentials {
 protected:
  std::unique_ptr<home::AzureIdentity> identity() {
    io::HttpOptions http;
    http.connect_timeout = http.silence = std::chrono::milliseconds(300);
    http.direct = true;
    return std::make_unique<home::AzureIdentity>(*runtime, environment(), home::KeyTransports{io::make_http_client(http), io::make_http_client(http)});
  }
  void expect_refused(const std::vector<std::string>& words) {
    const auto got = identity()->token();
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().outcome, Outcome::unauthorised);
    for (const auto& word : words) EXPECT_NE(got.error().message.find(word), std::string::npos) << word << ": " << got.error().message;
    EXPECT_EQ(got.error().message.find("SECRET-"), std::string::npos) << got.error().message;
  }
  std::atomic<int> answers{0};
  std::atomic<int> seconds{86'400};
  std::atomic<bool> fails{false};
  HttpServer server{[this](const WebRequest& request) {
    if (fails) return WebReply{400, R"({"error":"unauthorized_client","error_description":"AADSTS700016: no such client\r\nTrace: x"})", {}};
    if (request.method == "GET" && request.header("metadata") != "true") return WebReply{400, "", {}};
    return WebReply{
        200, R"({"token_type":"Bearer","access_token":"SECRET-)" + std::to_string(++answers) + R"(","expires_in":")" + std::to_string(seconds) + "\"}", {}};
  }};
};

TEST_F(AzureIdentityTest, the_machine_s_is_asked_for_once_and_again_before_it_expires) {
  variables["AZURE_POD_IDENTITY_AUTHORITY_HOST"] = server.url() + "/";
  const auto one = identity();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(one->token().value(), "SECRET-1");
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(server.requests()[0].target, "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fstorage.azure.com%2F");
  variables["AZURE_CLIENT_ID"] = "c-1";
  seconds = 60;  // so near its end it is asked for each time, and serves while that fails
  const auto soon = identity();
  EXPECT_EQ(soon->token().value(), "SECRET-2");
  EXPECT_NE(server.requests()[1].target.find("client_id=c-1"), std::string::npos);
  EXPECT_EQ(soon->token().value(), "SECRET-3");
  fails = true;
  EXPECT_EQ(soon->token().value(), "SECRET-3");
  const auto asked = server.requests().size();
  EXPECT_EQ(soon->token().value(), "SECRET-3");
  EXPECT_EQ(server.requests().size(), asked) << "not at every request";
  expect_refused({"metadata endpoint", "AADSTS700016", "unauthorized_client"});
}

TEST_F(AzureIdentityTest, a_pod_shows_its_federated_token) {
  write("federated", "SECRET-proof\n");
  variables["AZURE_FEDERATED_TOKEN_FILE"] = folder.path() + "/federated";
  variables["AZURE_AUTHORITY_HOST"] = server.url() + "/";
  expect_refused({"AZURE_CLIENT_ID", "AZURE_TENANT_ID"});
  variables["AZURE_CLIENT_ID"] = "c";
  variables["AZURE_TENANT_ID"] = "t/1";
  EXPECT_EQ(identity()->token().value(), "SECRET-1");
  const auto seen = server.requests().front();
  EXPECT_EQ(seen.method + " " + seen.target, "POST /t%2F1/oauth2/v2.0/token");
  EXPECT_EQ(seen.body,
            "client_assertion=SECRET-proof&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_id=c&"
            "grant_type=client_credentials&scope=https%3A%2F%2Fstorage.azure.com%2F.default");
  fails = true;
  expect_refused({"client c", folder.path() + "/federated", "AADSTS700016"});
  variables["AZURE_AUTHORITY_HOST"] = "http://login.example.net";
  expect_refused({"neither https"});
  variables["AZURE_AUTHORITY_HOST"] = server.url();
  variables["AZURE_FEDERATED_TOKEN_FILE"] = folder.path() + "/missing";
  expect_refused({"/missing", "cannot be read"});
}

TEST_F(AzureIdentityTest, it_is_the_last_that_is_looked_at) {
  const auto token = [] { return Result<std::string>("SECRET-t"); };
  const auto none = [] { return Result<std::string>(tl::unexpected(Error{Outcome::unauthorised, "nobody here", {}})); };
  EXPECT_EQ(home::azure_keys(environment(), "", "acct", token).value().bearer, "SECRET-t");
  EXPECT_FALSE(home::azure_keys(environment(), "", "", token)) << "no account";
  const auto refused = home::azure_keys(environment(), "", "acct", none);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("nobody here"), std::string::npos) << refused.error().message;
  variables["AZURE_STORAGE_SAS_TOKEN"] = "sv=1&sig=x";
  EXPECT_EQ(home::azure_keys(environment(), "", "acct", token).value().bearer, "");
  for (const auto* bad : {"", "[]", "{}", R"({"access_token":"a"})", R"({"access_token":"a b","expires_in":1})", R"({"access_token":"a","expires_in":-1})",
                          R"({"access_token":"a","expires_in":"1x"})", R"({"access_token":"a","expires_in":99999999999})"})
    EXPECT_FALSE(home::parse_azure_token(as_bytes(bad))) << bad;
  EXPECT_EQ(home::parse_azure_token(as_bytes(R"({"access_token":"a","expires_in":3600})")).value().seconds, 3600);
}

class Instance : public Credentials {
 protected:
  Instance() {
    variables["AWS_EC2_METADATA_DISABLED"] = "";
    variables["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = server.url() + "/";
  }
  WebReply reply(const WebRequest& request) {
    if (fails) return {500, "", {}};
    if (request.method == "PUT" && request.target == "/latest/api/token") return {200, "the-token", {}};
    if (request.header("x-aws-ec2-metadata-token") != "the-token") return {401, "", {}};
    if (request.target == "/latest/meta-data/iam/security-credentials/") return {200, "my-role", {}};
    ++answers;
    return {200, answer_of("I" + std::to_string(answers), expires), {}};
  }
  std::atomic<bool> fails{false};
  std::atomic<int> answers{0};
  std::string expires = "2999-01-01T00:00:00Z";
  HttpServer server{[this](const WebRequest& request) { return reply(request); }};
};

TEST_F(Instance, the_metadata_of_the_instance_is_asked_by_version_2) {
  const auto keys = source();
  EXPECT_EQ(keys->keys().value().key_id, "I1");
  EXPECT_EQ(keys->keys().value().key_id, "I1");
  const auto seen = server.requests();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].header("x-aws-ec2-metadata-token-ttl-seconds"), "21600");
  EXPECT_EQ(seen[2].target, "/latest/meta-data/iam/security-credentials/my-role");
}

TEST_F(Instance, keys_that_expire_soon_are_fresh_again_and_old_ones_serve_while_that_fails) {
  expires = "1970-01-01T00:01:00Z";  // long gone
  const auto keys = source();
  EXPECT_EQ(keys->keys().value().key_id, "I1");
  EXPECT_EQ(keys->keys().value().key_id, "I2") << "asked anew";
  fails = true;
  EXPECT_FALSE(keys->keys()) << "what has expired is no key";
}

TEST_F(Instance, one_of_many_threads_asks) {
  const auto keys = source();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      const auto got = keys->keys();
      right += got && got->key_id == "I1" ? 1 : 0;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(answers, 1);
}

TEST(BucketUrl, what_a_url_says) {
  const auto plain = home::parse_bucket_url("s3://my-bucket/team/app/").value();
  EXPECT_EQ(plain.bucket, "my-bucket");
  EXPECT_EQ(plain.prefix, "team/app");
  EXPECT_EQ(home::bucket_home_name("s3", plain, ""), "s3://my-bucket/team/app");
  const auto full = home::parse_bucket_url("s3://b.c-d?endpoint=https%3A%2F%2Fh.example.net:443%2Fgw%2F&region=eu-west-1&path_style=0").value();
  EXPECT_EQ(full.endpoint, "https://h.example.net/gw");
  EXPECT_EQ(full.region, "eu-west-1");
  EXPECT_EQ(full.path_style, "0");
  EXPECT_EQ(home::bucket_home_name("s3", full, full.endpoint), "s3://b.c-d?endpoint=https://h.example.net/gw");
  EXPECT_EQ(home::parse_bucket_url("s3://bucket?endpoint=http://[::1]:9000").value().endpoint, "http://[::1]:9000");
  for (const auto* bad : {"s3://", "s3:///x", "s3://ab", "s3://bucket/a//b", "s3://bucket/../x", "s3://bucket/@log", "s3://bucket/sp%20ace",
                          "s3://bucket?nope=1", "s3://bucket?endpoint=host", "s3://bucket?endpoint=https://user@host", "s3://bucket?endpoint=https://",
                          "s3://bucket?endpoint=https", "s3://bucket?region=a/b", "s3://bucket?path_style=yes", "s3://bucket?endpoint=%zz", "s3:bucket"}) {
    const auto parsed = home::parse_bucket_url(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().outcome, Outcome::invalid);
    EXPECT_GT(parsed.error().message.size(), 30u) << "says how to write it: " << parsed.error().message;
  }
}

}  // namespace
}  // namespace onepen::testing
