// What a bucket could not do, as sentences: what happened, to what, what to do; and which outcome of the fence that is. Pure.
#pragma once
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include <onepen/result.h>
#include "home/object/bucket_requests.h"
#include "home/object/bucket_xml.h"

namespace onepen::home {

// What was asked, for the sentences.
struct BucketAsked {
  RequestKind kind = RequestKind::get;
  std::string key;       // or the folder that was listed
  std::string bucket;    // "bucket 'b'", "container 'c'"
  std::string endpoint;  // "https://host:port"
  std::string region;    // that it was signed for; S3 only
  std::string key_id;    // that signed it: no secret. S3: access key, Azure: account
  std::int64_t now_ms = 0;
};

// Whether a store's code is one of a list.
template <std::size_t N>
bool is_one_of(std::string_view code, const std::array<std::string_view, N>& codes) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

std::string_view doing(RequestKind kind);  // "Reading": a sentence begins so

// No whole answer came. Outcome: unavailable.
Error no_answer_error(const BucketAsked& asked, const io::HttpFailure& failure);
// Asked again and again, and told to be slower, or that the server could not. Outcome: unavailable.
Error kept_failing_error(const BucketAsked& asked, const Told& told, std::string_view code);
// A key id as a sentence may show it. Keys that somebody swapped put the secret in its place, and secrets are longer: then only its length is told.
std::string shown_key_id(std::string_view id);
// How far our clock is off, from the Date header of an answer: "this machine's clock is 17 min behind the store's". Empty: it is not told.
std::string clock_words(const io::HttpAnswer& answer, std::int64_t now_ms);

// ---- S3
Verdict s3_verdict(const io::HttpAnswer& answer);
std::optional<std::string> s3_region_told(const io::HttpAnswer& answer);  // of an answer that says: wrong region
bool s3_keys_expired(const io::HttpAnswer& answer);
// A refusal, or an answer that is none of S3's.
Error s3_error(const BucketAsked& asked, const Told& told);

// ---- Azure Blob
std::string azure_code(const io::HttpAnswer& answer);  // of its own; empty: the answer is none of Azure's
Verdict azure_verdict(const io::HttpAnswer& answer);
Error azure_error(const BucketAsked& asked, const Told& told);

}  // namespace onepen::home
