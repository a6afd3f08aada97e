#include "home/object/bucket_xml.h"

#include <algorithm>

#include <pugixml.hpp>
#include <string_view>

#include "home/object/bucket_codec.h"

namespace onepen::home {
namespace {

// pugixml neither reads a DOCTYPE's entities nor anything outside the document. None: it is no XML, or another document.
bool load(pugi::xml_document& document, ByteView body, std::string_view root) {
  const auto done = document.load_buffer(body.data(), body.size(), pugi::parse_default | pugi::parse_ws_pcdata_single);
  return done && document.document_element().name() == root;
}

std::optional<std::string> name_of(const pugi::xml_node& node, bool url_encoded) {
  std::string_view text = node.text().get();
  if (!url_encoded) return std::string(text);
  std::string spaced(text);
  for (char& c : spaced)
    if (c == '+') c = ' ';
  return percent_decoded(spaced);
}

}  // namespace

std::optional<BucketFault> parse_bucket_fault(ByteView body) {
  pugi::xml_document document;
  if (!load(document, body, "Error")) return std::nullopt;
  const auto error = document.document_element();
  BucketFault out{error.child("Code").text().get(), error.child("Message").text().get(), error.child("Region").text().get(),
                  error.child("RequestId").text().get()};
  if (out.code.empty()) return std::nullopt;
  return out;
}

std::optional<StsAnswer> parse_sts_answer(ByteView body) {
  pugi::xml_document document;
  if (load(document, body, "ErrorResponse")) {
    const auto error = document.document_element().child("Error");
    StsAnswer out{.code = error.child("Code").text().get(), .message = error.child("Message").text().get()};
    if (out.code.empty()) return std::nullopt;
    return out;
  }
  if (!load(document, body, "AssumeRoleWithWebIdentityResponse")) return std::nullopt;
  const auto keys = document.document_element().child("AssumeRoleWithWebIdentityResult").child("Credentials");
  StsAnswer out{keys.child("AccessKeyId").text().get(), keys.child("SecretAccessKey").text().get(), keys.child("SessionToken").text().get(),
                keys.child("Expiration").text().get()};
  if (out.key_id.empty() || out.secret.empty() || out.session_token.empty()) return std::nullopt;
  return out;
}

std::optional<BucketPage> parse_s3_page(ByteView body) {
  pugi::xml_document document;
  if (!load(document, body, "ListBucketResult")) return std::nullopt;
  const auto list = document.document_element();
  const bool encoded = std::string_view(list.child("EncodingType").text().get()) == "url";
  BucketPage out;
  for (const auto& one : list.children("Contents")) {
    auto key = name_of(one.child("Key"), encoded);
    if (!key) return std::nullopt;
    out.keys.push_back(std::move(*key));
  }
  for (const auto& one : list.children("CommonPrefixes")) {
    auto prefix = name_of(one.child("Prefix"), encoded);
    if (!prefix) return std::nullopt;
    out.prefixes.push_back(std::move(*prefix));
  }
  if (std::string_view(list.child("IsTruncated").text().get()) == "true") {
    out.next = list.child("NextContinuationToken").text().get();
    if (out.next.empty()) return std::nullopt;  // there is more, and no way to it
  }
  return out;
}

std::optional<BucketPage> parse_azure_page(ByteView body) {
  pugi::xml_document document;
  if (!load(document, body, "EnumerationResults")) return std::nullopt;
  const auto list = document.document_element();
  BucketPage out;
  for (const auto& one : list.child("Blobs").children("Blob")) out.keys.emplace_back(one.child("Name").text().get());
  for (const auto& one : list.child("Blobs").children("BlobPrefix")) out.prefixes.emplace_back(one.child("Name").text().get());
  out.next = list.child("NextMarker").text().get();
  return out;
}

void add_names(const BucketPage& page, std::string_view prefix, std::string_view after, std::vector<std::string>& names) {
  const auto add = [&](std::string_view key) {
    if (!key.starts_with(prefix)) return;
    auto name = key.substr(prefix.size());
    if (name.ends_with('/')) name.remove_suffix(1);
    if (!name.empty() && name > after) names.emplace_back(name);
  };
  for (const auto& key : page.keys) add(key);
  for (const auto& deeper : page.prefixes) add(deeper);
}

std::vector<std::string> first_names(std::vector<std::string> names, std::size_t limit) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.size() > limit) names.resize(limit);
  return names;
}

}  // namespace onepen::home
