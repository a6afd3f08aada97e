// Where credentials of buckets come from: environment, shared files, and endpoints of the test's own on loopback. Never a secret in a sentence.
#include "home/object/bucket_credentials.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "home/object/bucket_place.h"
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
    return home::make_aws_key_source(*runtime, environment(), credential, io::make_http_client(http));
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
