// The XML that S3 and Azure answer with, over pugixml (which stays in the .cc). What is no such document is `none`, never a guess. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace onepen::home {

struct BucketFault {  // an <Error>
  std::string code, message, region, request_id;
};
std::optional<BucketFault> parse_bucket_fault(ByteView body);

struct BucketPage {  // of a listing
  std::vector<std::string> keys;      // objects directly there
  std::vector<std::string> prefixes;  // what lies deeper, up to the delimiter and with it
  std::string next;                   // where the next page begins; empty: this was the last
};
struct StsAnswer {  // of AssumeRoleWithWebIdentity: keys, or the code and the words of a refusal
  std::string key_id, secret, session_token, expiration;
  std::string code, message;
};
std::optional<StsAnswer> parse_sts_answer(ByteView body);
std::optional<BucketPage> parse_s3_page(ByteView body);
std::optional<BucketPage> parse_azure_page(ByteView body);

// Adds what a page lists directly under `prefix`, objects and deeper folders by their own names, behind `after`.
void add_names(const BucketPage& page, std::string_view prefix, std::string_view after, std::vector<std::string>& names);
// Sorted, each once, at most `limit`.
std::vector<std::string> first_names(std::vector<std::string> names, std::size_t limit);

}  // namespace onepen::home
