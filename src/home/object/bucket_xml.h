// The XML that S3 and Azure answer with, over pugixml (which stays in the .cc). What is no such document is `none`, never a guess. Pure.
#pragma once
#include <optional>
#include <string>
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
std::optional<BucketPage> parse_s3_page(ByteView body);
std::optional<BucketPage> parse_azure_page(ByteView body);

}  // namespace onepen::home
