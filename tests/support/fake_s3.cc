#include "tests/support/fake_s3.h"

#include <set>

#include "home/object/bucket_codec.h"

namespace onepen::testing {
namespace {

std::string parameter(const std::string& query, const std::string& name) {
  for (std::size_t at = 0; at < query.size();) {
    const auto end = std::min(query.find('&', at), query.size());
    const auto one = query.substr(at, end - at);
    if (one.starts_with(name + "=")) return home::percent_decoded(one.substr(name.size() + 1)).value_or("");
    at = end + 1;
  }
  return {};
}

}  // namespace

WebReply FakeS3::error(int status, const std::string& code, const std::string& more, std::vector<std::pair<std::string, std::string>> headers) {
  const std::string body =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>" + code + "</Code><Message>said so</Message>" + more + "<RequestId>R1</RequestId></Error>";
  return {status, body, std::move(headers)};
}

void FakeS3::next(WebReply reply, int times) {
  instead([this, reply = std::move(reply), left = std::make_shared<int>(times)](const WebRequest&) -> std::optional<WebReply> {
    const std::lock_guard lock(mutex_);
    if (*left == 0) return std::nullopt;
    --*left;
    return reply;
  });
}

WebReply FakeS3::reply(const WebRequest& request) {
  std::function<std::optional<WebReply>(const WebRequest&)> hook;
  {
    const std::lock_guard lock(mutex_);
    hook = instead_;
  }
  if (!request.header("authorization").starts_with("AWS4-HMAC-SHA256 Credential=")) return error(403, "AccessDenied");
  if (hook)
    if (auto own = hook(request)) return *own;
  return answer(request);
}

WebReply FakeS3::answer(const WebRequest& request) {
  const std::string path = home::percent_decoded(request.path()).value_or("");
  if (path != "/" + bucket_ && !path.starts_with("/" + bucket_ + "/")) return error(404, "NoSuchBucket");
  const std::string key = path.substr(std::min(path.size(), bucket_.size() + 2));
  if (key.empty()) return list(request);
  const std::lock_guard lock(mutex_);
  const auto at = objects_.find(key);
  if (request.method == "PUT") {
    if (keeps_conditions && request.header("if-none-match") == "*" && at != objects_.end()) return error(412, "PreconditionFailed");
    objects_[key] = request.body;
    return {200, "", {{"ETag", "\"x\""}}};
  }
  if (request.method == "DELETE") {
    objects_.erase(key);
    return {204, "", {}};
  }
  if (at == objects_.end()) return error(404, "NoSuchKey");
  const auto range = request.header("range");
  if (range.empty()) return {200, at->second, {}};
  const auto from = std::stoull(range.substr(6)), to = std::stoull(range.substr(range.find('-') + 1));
  if (from >= at->second.size()) return error(416, "InvalidRange");
  return {206, at->second.substr(from, to - from + 1), {}};
}

WebReply FakeS3::list(const WebRequest& request) {
  const auto query = request.query();
  const auto prefix = parameter(query, "prefix"), delimiter = parameter(query, "delimiter");
  const auto limit = std::min<std::size_t>(std::stoul(parameter(query, "max-keys")), page);
  auto after = std::max(parameter(query, "start-after"), parameter(query, "continuation-token"));
  const std::lock_guard lock(mutex_);
  std::string found, last;
  std::set<std::string> prefixes;
  std::size_t count = 0;
  bool more = false;
  for (const auto& [key, body] : objects_) {
    if (!key.starts_with(prefix) || key <= after) continue;
    const auto deeper = delimiter.empty() ? std::string::npos : key.find(delimiter, prefix.size());
    const auto group = deeper == std::string::npos ? std::string() : key.substr(0, deeper + 1);
    if (!group.empty() && (prefixes.contains(group) || after.starts_with(group))) continue;
    if (count == limit) {
      more = true;
      break;
    }
    ++count;
    last = group.empty() ? key : group + "\xff";
    if (group.empty()) found += "<Contents><Key>" + key + "</Key></Contents>";
    else prefixes.insert(group);
  }
  for (const auto& group : prefixes) found += "<CommonPrefixes><Prefix>" + group + "</Prefix></CommonPrefixes>";
  const std::string truncated =
      more ? "<IsTruncated>true</IsTruncated><NextContinuationToken>" + last + "</NextContinuationToken>" : "<IsTruncated>false</IsTruncated>";
  return {200, "<?xml version=\"1.0\"?><ListBucketResult>" + truncated + found + "</ListBucketResult>", {{"Content-Type", "application/xml"}}};
}

}  // namespace onepen::testing
