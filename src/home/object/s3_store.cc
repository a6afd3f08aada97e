#include "home/object/s3_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/mutex.h"
#include "home/object/bucket_errors.h"
#include "home/object/bucket_place.h"
#include "home/object/bucket_xml.h"
#include "wire/log_object.h"

namespace onepen::home {
namespace {

constexpr std::size_t kS3Page = 1000;
constexpr std::uint64_t kMaxListBytes = 8u << 20;  // of one page
constexpr std::uint64_t kMaxAnswerBytes = 1u << 20;
constexpr int kS3Rounds = 3;  // of one call: as it is; in the right region; with fresh keys

std::string cloud_endpoint(std::string_view region) { return fmt::format("https://s3.{}.amazonaws.com{}", region, region.starts_with("cn-") ? ".cn" : ""); }

class S3Store final : public ObjectStore {
 public:
  S3Store(Runtime& runtime, S3Place place, S3Parts parts)
      : runtime_(runtime),
        place_(std::move(place)),
        keys_(std::move(parts.keys)),
        http_(std::move(parts.http)),
        metrics_(std::move(parts.metrics)),
        requests_(runtime, *http_, *metrics_, parts.retry),
        region_(place_.region) {}

  Result<Bytes> get(const std::string& key) override;
  Result<Bytes> get_range(const std::string& key, std::uint64_t from, std::uint64_t size) override;
  Result<PutOutcome> put_if_absent(const std::string& key, ByteView bytes) override;
  Result<> put(const std::string& key, ByteView bytes) override;
  Result<std::vector<std::string>> list(const std::string& folder, const std::string& after, std::size_t limit) override;
  Result<> erase(const std::string& key) override;
  std::size_t at_once() const override { return kBucketAtOnce; }
  std::string describe() const override {
    return fmt::format("bucket s3://{}{}{}{}{}", place_.bucket, place_.prefix.empty() ? "" : "/", place_.prefix, place_.endpoint.empty() ? "" : " at ",
                       place_.endpoint);
  }

 private:
  struct Call {
    RequestKind kind = RequestKind::get;
    std::string_view method = "GET";
    std::string key;  // below the prefix; empty: the bucket itself
    Query query{};
    std::vector<io::HttpHeader> headers{};
    ByteView body{};
    std::uint64_t max_answer_bytes = kMaxAnswerBytes;
  };
  struct Answered {
    Told told;
    BucketAsked asked;
  };
  Result<Answered> exchange(const Call& call);
  Result<io::HttpRequest> request_of(const Call& call, const std::string& region, const AwsKeys& keys);
  bool follow(const std::string& region, const io::HttpAnswer& answer);
  Result<Bytes> fetch(Call call, int whole);
  std::string in_bucket(std::string_view key) const { return place_.prefix.empty() ? std::string(key) : fmt::format("{}/{}", place_.prefix, key); }
  std::string region() {
    const Lock lock(mutex_);
    return region_;
  }
  std::string endpoint_in(const std::string& region) const { return place_.endpoint.empty() ? cloud_endpoint(region) : place_.endpoint; }
  BucketAsked asked_of(const Call& call, const std::string& region, const AwsKeys& keys) {
    return {call.kind, call.key, fmt::format("bucket '{}'", place_.bucket), endpoint_in(region), region, shown_key_id(keys.key_id), runtime_.wall_ms()};
  }

  Runtime& runtime_;
  const S3Place place_;
  const std::unique_ptr<AwsKeySource> keys_;
  const std::unique_ptr<io::HttpClient> http_;
  const std::shared_ptr<BucketMetrics> metrics_;
  BucketRequests requests_;
  Mutex mutex_;
  std::string region_ ONEPEN_GUARDED_BY(mutex_);  // that requests are signed for; followed once
  bool followed_ ONEPEN_GUARDED_BY(mutex_) = false;
};

Result<io::HttpRequest> S3Store::request_of(const Call& call, const std::string& region, const AwsKeys& keys) {
  const Endpoint at = split_endpoint(endpoint_in(region));
  const bool host_style = !place_.path_style;
  const std::string host = host_style ? fmt::format("{}.{}", place_.bucket, at.host) : at.host;
  const std::string above = host_style ? at.path : fmt::format("{}/{}", at.path, place_.bucket);
  const std::string path = uri_encoded(call.key.empty() ? above + (host_style ? "/" : "") : fmt::format("{}/{}", above, in_bucket(call.key)), Slashes::kept);
  const std::string query = canonical_query(call.query);
  io::HttpRequest request;
  request.method = call.method;
  request.url = fmt::format("{}{}{}{}{}", at.origin.substr(0, at.origin.find("://") + 3), host, path, query.empty() ? "" : "?", query);
  request.headers = call.headers;
  request.headers.insert(request.headers.begin(), {"Host", host});
  request.body = call.body;
  request.max_answer_bytes = call.max_answer_bytes;
  sign_s3(keys, {region, "s3", runtime_.wall_ms()}, call.method, path, query, call.body, request.headers);
  return request;
}

// True: the answer names another region, and from now on requests are signed for that one. The endpoint stays, or is the cloud's own host there.
bool S3Store::follow(const std::string& region, const io::HttpAnswer& answer) {
  const auto told = s3_region_told(answer);
  if (!told || *told == region || place_.region_kept) return false;
  const Lock lock(mutex_);
  if (region_ == *told) return true;  // another thread followed meanwhile
  if (followed_) return false;
  followed_ = true;
  region_ = *told;
  return true;
}

Result<S3Store::Answered> S3Store::exchange(const Call& call) {
  bool may_have_landed = false, refreshed = false;
  for (int round = 1;; ++round) {
    const std::string signed_for = region();
    AwsKeys used;
    const auto make = [&]() -> Result<io::HttpRequest> {
      auto keys = keys_->keys();
      if (!keys) return tl::unexpected(keys.error());
      used = std::move(*keys);
      return request_of(call, signed_for, used);
    };
    auto told = requests_.send(call.kind, make, s3_verdict);
    if (!told && !may_have_landed) return tl::unexpected(told.error());
    if (!told) told = Told{tl::unexpected(io::HttpFailure{io::HttpFault::broken, true, told.error().message})};
    told->may_have_landed |= may_have_landed;
    may_have_landed = told->may_have_landed;
    if (told->last && round < kS3Rounds) {
      if (follow(signed_for, *told->last)) continue;
      if (!refreshed && s3_keys_expired(*told->last)) {
        refreshed = true;
        keys_->refused(used);
        continue;
      }
    }
    auto asked = asked_of(call, signed_for, used);
    return Answered{std::move(*told), std::move(asked)};
  }
}

// `whole`: the status of a good answer, 200 or, of a range, 206.
Result<Bytes> S3Store::fetch(Call call, int whole) {
  auto done = exchange(call);
  if (!done) return tl::unexpected(done.error());
  auto& last = done->told.last;
  if (last && last->status == whole) return std::move(last->body);
  // Absent is what S3 calls so by its own code: any other 404 (a wrong endpoint, a bucket that is gone) says nothing of the object.
  if (last && last->status == 404)
    if (const auto fault = parse_bucket_fault(last->body); fault && fault->code == "NoSuchKey")
      return tl::unexpected(Error{Outcome::not_found, fmt::format("There is no {} in the {}.", call.key, describe()), {}});
  if (last && last->status == 416 && whole == 206) return Bytes{};  // a range behind the end
  if (last && last->status == 200)
    return tl::unexpected(Error{Outcome::unavailable, fmt::format("The {} answers with all of {} where a part was asked for.", describe(), call.key), {}});
  return tl::unexpected(s3_error(done->asked, done->told));
}

Result<Bytes> S3Store::get(const std::string& key) {
  Call call{.kind = RequestKind::get, .key = key};
  call.max_answer_bytes = wire::kMaxObjectBytes + 1;
  return fetch(std::move(call), 200);
}

Result<Bytes> S3Store::get_range(const std::string& key, std::uint64_t from, std::uint64_t size) {
  if (size == 0) return Bytes{};
  size = std::min<std::uint64_t>({size, wire::kMaxObjectBytes + 1, ~std::uint64_t{0} - from});
  Call call{.kind = RequestKind::get, .key = key};
  call.headers.push_back({"Range", fmt::format("bytes={}-{}", from, from + size - 1)});
  call.max_answer_bytes = std::max(size, kMaxAnswerBytes);  // room for an error
  return fetch(std::move(call), 206);
}

Result<PutOutcome> S3Store::put_if_absent(const std::string& key, ByteView bytes) {
  Call call{.kind = RequestKind::create, .method = "PUT", .key = key};
  call.headers.push_back({"If-None-Match", "*"});
  call.body = bytes;
  auto done = exchange(call);
  if (!done) return tl::unexpected(done.error());
  const auto& told = done->told;
  if (told.last && told.last->status == 200)
    return PutOutcome::created;  // whatever became of attempts before: with "*", one that had landed would have refused this
  if (told.last && told.last->status == 412) return PutOutcome::exists;   // perhaps by an attempt of our own: the home reads whose it is
  if (told.may_have_landed) return PutOutcome::unknown;
  // Only S3's own word is a definite refusal: what a proxy answers says nothing of what became of the request.
  if (told.last && !parse_bucket_fault(told.last->body) && !s3_region_told(*told.last)) return PutOutcome::unknown;
  return tl::unexpected(s3_error(done->asked, told));
}

Result<> S3Store::put(const std::string& key, ByteView bytes) {
  Call call{.kind = RequestKind::put, .method = "PUT", .key = key};
  call.body = bytes;
  auto done = exchange(call);
  if (!done) return tl::unexpected(done.error());
  if (done->told.last && done->told.last->status == 200) return {};
  return tl::unexpected(s3_error(done->asked, done->told));
}

Result<> S3Store::erase(const std::string& key) {
  Call call{.kind = RequestKind::erase, .method = "DELETE", .key = key};
  auto done = exchange(call);
  if (!done) return tl::unexpected(done.error());
  const auto& last = done->told.last;
  if (last && (last->status == 204 || last->status == 200)) return {};
  if (last && last->status == 404)
    if (const auto fault = parse_bucket_fault(last->body); fault && fault->code == "NoSuchKey") return {};
  return tl::unexpected(s3_error(done->asked, done->told));
}

Result<std::vector<std::string>> S3Store::list(const std::string& folder, const std::string& after, std::size_t limit) {
  const std::string above = in_bucket(folder);
  const std::string prefix = above.empty() || above.ends_with('/') ? above : above + "/";
  std::vector<std::string> names;
  std::string next;
  while (names.size() < limit) {
    Call call{.kind = RequestKind::list};
    call.query = {{"list-type", "2"}, {"delimiter", "/"}, {"encoding-type", "url"}, {"prefix", prefix}};
    call.query.emplace_back("max-keys", std::to_string(std::min(limit - names.size(), kS3Page)));
    if (!next.empty()) call.query.emplace_back("continuation-token", next);
    else if (!after.empty()) call.query.emplace_back("start-after", prefix + after);
    call.max_answer_bytes = kMaxListBytes;
    auto done = exchange(call);
    if (!done) return tl::unexpected(done.error());
    done->asked.key = folder;
    if (!done->told.last || done->told.last->status != 200) return tl::unexpected(s3_error(done->asked, done->told));
    const auto page = parse_s3_page(done->told.last->body);
    if (!page) return tl::unexpected(Error{Outcome::unavailable, fmt::format("The {} lists '{}' with what is no listing of S3.", describe(), folder), {}});
    add_names(*page, prefix, after, names);
    next = page->next;
    if (next.empty()) break;
  }
  return first_names(std::move(names), limit);
}

}  // namespace

std::unique_ptr<ObjectStore> make_s3_store(Runtime& runtime, S3Place place, S3Parts parts) {
  ONEPEN_CHECK(parts.keys && parts.http && parts.metrics, "an S3 store has keys, a transport and counters");
  return std::make_unique<S3Store>(runtime, std::move(place), std::move(parts));
}

}  // namespace onepen::home
