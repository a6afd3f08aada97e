// Signatures against AWS's published vectors: the SigV4 test suite, and the examples of the S3 manual.
#include "home/object/aws_sigv4.h"

#include <gtest/gtest.h>

#include "home/object/bucket_codec.h"

namespace onepen::home {
namespace {

const std::string kNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string signature(const std::string& authorization) { return authorization.substr(authorization.rfind('=') + 1); }

// The suite's key and moment. Its requests carry no X-Amz-Content-Sha256.
struct Vector {
  const char* name;
  std::string method, path, query;
  std::vector<io::HttpHeader> more;
  const char* signature;
};
const std::vector<Vector> kSuite{
    {"get-vanilla", "GET", "/", "", {}, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"post-vanilla", "POST", "/", "", {}, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
    {"get-vanilla-query-order-key-case",
     "GET",
     "/",
     canonical_query({{"Param2", "value2"}, {"Param1", "value1"}}),
     {},
     "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
    {"get-utf8", "GET", uri_encoded("/\u1234", Slashes::kept), "", {}, "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
    {"get-unreserved",
     "GET",
     uri_encoded("/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", Slashes::kept),
     "",
     {},
     "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
    {"get-header-value-trim",
     "GET",
     "/",
     "",
     {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}},
     "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
    {"post-header-key-sort", "POST", "/", "", {{"My-Header1", "value1"}}, "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
};

TEST(AwsSigV4, the_published_test_suite) {
  constexpr std::int64_t kMoment = 1'440'938'160'000;  // 2015-08-30T12:36:00Z
  ASSERT_EQ(amz_time(kMoment), "20150830T123600Z");
  const AwsKeys keys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"};
  for (const auto& one : kSuite) {
    std::vector<io::HttpHeader> headers{{"Host", "example.amazonaws.com"}, {"X-Amz-Date", amz_time(kMoment)}};
    headers.insert(headers.end(), one.more.begin(), one.more.end());
    const auto signed_as = aws_authorization(keys, {"us-east-1", "service", kMoment}, one.method, one.path, one.query, headers, kNothing);
    EXPECT_EQ(signature(signed_as), one.signature) << one.name << ": " << signed_as;
  }
}

class S3Manual : public ::testing::Test {
 protected:
  std::string sign(std::string_view method, std::string_view path, const Query& query, std::string_view body, std::vector<io::HttpHeader> headers) {
    headers.insert(headers.begin(), {"Host", "examplebucket.s3.amazonaws.com"});
    sign_s3({"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}, {"us-east-1", "s3", 1'369'353'600'000}, method, path, canonical_query(query),
            as_bytes(body), headers);
    return headers.back().value;
  }
};

TEST_F(S3Manual, get_of_a_range) {
  EXPECT_EQ(sign("GET", "/test.txt", {}, "", {{"Range", "bytes=0-9"}}),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}
TEST_F(S3Manual, put_of_a_name_that_is_encoded) {
  const auto signed_as = sign("PUT", uri_encoded("/test$file.text", Slashes::kept), {}, "Welcome to Amazon S3.",
                              {{"Date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}});
  EXPECT_EQ(signature(signed_as), "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd") << signed_as;
}
TEST_F(S3Manual, a_query_without_a_value) {
  EXPECT_EQ(signature(sign("GET", "/", {{"lifecycle", ""}}, "", {})), "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}
TEST_F(S3Manual, a_listing) {
  EXPECT_EQ(signature(sign("GET", "/", {{"prefix", "J"}, {"max-keys", "2"}}, "", {})), "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(AwsSigV4, what_is_encoded_and_how_a_query_is_ordered) {
  EXPECT_EQ(uri_encoded("a/b c+d%\xc3\xa4", Slashes::kept), "a/b%20c%2Bd%25%C3%A4");
  EXPECT_EQ(uri_encoded("a/@log/1", Slashes::encoded), "a%2F%40log%2F1");
  EXPECT_EQ(uri_encoded("/a//b/./../c", Slashes::kept), "/a//b/./../c") << "S3 names are no paths: nothing is normalised";
  EXPECT_EQ(canonical_query({{"prefix", "a/b"}, {"list-type", "2"}, {"a b", "="}, {"a", ""}}), "a=&a%20b=%3D&list-type=2&prefix=a%2Fb");
}

TEST(AwsSigV4, a_session_token_is_signed_too) {
  std::vector<io::HttpHeader> headers{{"Host", "h"}};
  sign_s3({"K", "S", "the-token"}, {"r", "s3", 0}, "GET", "/", "", {}, headers);
  EXPECT_NE(headers.back().value.find(";x-amz-security-token,"), std::string::npos) << headers.back().value;
}

TEST(BucketCodec, hashes_and_encodings) {
  EXPECT_EQ(hex(sha256({})), kNothing);
  EXPECT_EQ(hex(hmac_sha256(as_bytes("key"), "The quick brown fox jumps over the lazy dog")),
            "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8");
  for (const auto* text : {"", "f", "fo", "foo", "foob", "fooba", "foobar"}) {
    const auto encoded = base64(as_bytes(text));
    const auto back = from_base64(encoded);
    ASSERT_TRUE(back) << encoded;
    EXPECT_EQ(as_text(*back), text);
  }
  EXPECT_EQ(base64(as_bytes("foob")), "Zm9vYg==");
  for (const auto* bad : {"Zg", "Zg=", "Z!==", "====="}) EXPECT_FALSE(from_base64(bad)) << bad;
  EXPECT_EQ(percent_decoded("a%20b%2f"), "a b/");
  for (const auto* bad : {"%", "%2", "%zz", "a%00"}) EXPECT_FALSE(percent_decoded(bad)) << bad;
}

TEST(BucketCodec, times) {
  EXPECT_EQ(http_date(1'369'353'600'000), "Fri, 24 May 2013 00:00:00 GMT");
  EXPECT_EQ(http_date_ms("Fri, 24 May 2013 00:00:00 GMT"), 1'369'353'600'000);
  EXPECT_EQ(iso_date_ms("2013-05-24T00:00:01.5Z"), 1'369'353'601'000);
  for (const auto* bad : {"", "Fri, 24 May", "Fri, 24 Mai 2013 00:00:00 GMT", "Fri, 32 May 2013 00:00:00 GMT", "Fri, 24 May 2013 00-00-00 GMT"})
    EXPECT_FALSE(http_date_ms(bad)) << bad;
  for (const auto* bad : {"", "2013-13-01T00:00:00Z", "2013-02-30T00:00:00Z", "2013-05-24"}) EXPECT_FALSE(iso_date_ms(bad)) << bad;
}

}  // namespace
}  // namespace onepen::home
