#include "home/object/azure_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "home/object/bucket_codec.h"
#include "home/object/bucket_errors.h"
#include "home/object/bucket_place.h"
#include "home/object/bucket_xml.h"
#include "wire/log_object.h"

namespace onepen::home {
namespace {

constexpr std::size_t kAzurePage = 5000;
constexpr std::uint64_t kMaxAzureList = 16u << 20;  // of one page
constexpr std::uint64_t kMaxAzureAnswer = 1u << 20;
constexpr const char* kAzureVersion = "2020-10-02";

class AzureStore final : public ObjectStore {
 public:
  AzureStore(Runtime& runtime, AzurePlace place, std::function<Result<AzureKeys>()> keys, AzureParts parts)
      : runtime_(runtime),
        place_(std::move(place)),
        keys_(std::move(keys)),
        http_(std::move(parts.http)),
        metrics_(std::move(parts.metrics)),
        requests_(runtime, *http_, *metrics_, parts.retry) {}

  Result<Bytes> get(const std::string& key) override;
  Result<Bytes> get_range(const std::string& key, std::uint64_t from, std::uint64_t size) override;
  Result<PutOutcome> put_if_absent(const std::string& key, ByteView bytes) override;
  Result<> put(const std::string& key, ByteView bytes) override;
  Result<std::vector<std::string>> list(const std::string& folder, const std::string& after, std::size_t limit) override;
  Result<> erase(const std::string& key) override;
  std::size_t at_once() const override { return kBucketAtOnce; }
  std::string describe() const override {
    return fmt::format("container az://{}{}{} at {}", place_.container, place_.prefix.empty() ? "" : "/", place_.prefix, place_.endpoint);
  }

 private:
  struct Call {
    RequestKind kind = RequestKind::get;
    std::string_view method = "GET";
    std::string key;  // below the prefix; empty: the container itself
    Query query{};
    std::vector<io::HttpHeader> headers{};
    ByteView body{};
    std::uint64_t max_answer_bytes = kMaxAzureAnswer;
  };
  struct Answered {
    Told told;
    BucketAsked asked;
    int status() const { return told.last ? told.last->status : 0; }
    std::string code() const { return told.last ? azure_code(*told.last) : std::string(); }
  };
  Result<Answered> exchange(const Call& call);
  io::HttpRequest request_of(const Call& call, const AzureKeys& keys);
  Result<Bytes> fetch(const Call& call, int whole);
  std::string in_container(std::string_view key) const { return place_.prefix.empty() ? std::string(key) : fmt::format("{}/{}", place_.prefix, key); }

  Runtime& runtime_;
  const AzurePlace place_;
  const std::function<Result<AzureKeys>()> keys_;
  const std::unique_ptr<io::HttpClient> http_;
  const std::shared_ptr<BucketMetrics> metrics_;
  BucketRequests requests_;
};

io::HttpRequest AzureStore::request_of(const Call& call, const AzureKeys& keys) {
  const Endpoint at = split_endpoint(place_.endpoint);
  const std::string path = uri_encoded(
      fmt::format("{}/{}{}{}", at.path, place_.container, call.key.empty() ? "" : "/", call.key.empty() ? "" : in_container(call.key)), Slashes::kept);
  const std::string query = canonical_query(call.query);
  io::HttpRequest request;
  request.method = call.method;
  request.url = fmt::format("{}{}{}{}", at.origin, path, query.empty() ? "" : "?", query);
  request.headers = call.headers;
  request.headers.push_back({"x-ms-date", http_date(runtime_.wall_ms())});
  request.headers.push_back({"x-ms-version", kAzureVersion});
  request.body = call.body;
  request.max_answer_bytes = call.max_answer_bytes;
  if (!keys.sas.empty()) request.url += (query.empty() ? "?" : "&") + keys.sas;
  else if (!keys.bearer.empty()) request.headers.push_back({"Authorization", "Bearer " + keys.bearer});
  else request.headers.push_back({"Authorization", azure_authorization(keys, call.method, path, call.query, request.headers, call.body.size())});
  return request;
}

Result<AzureStore::Answered> AzureStore::exchange(const Call& call) {
  AzureKeys used;
  const auto make = [&]() -> Result<io::HttpRequest> {
    auto keys = keys_();
    if (!keys) return tl::unexpected(keys.error());
    used = std::move(*keys);
    return request_of(call, used);
  };
  auto told = requests_.send(call.kind, make, azure_verdict);
  if (!told) return tl::unexpected(told.error());
  return Answered{std::move(*told),
                  {call.kind, call.key, fmt::format("container '{}'", place_.container), place_.endpoint, "", used.account, runtime_.wall_ms()}};
}

// `whole`: the status of a good answer, 200 or, of a range, 206.
Result<Bytes> AzureStore::fetch(const Call& call, int whole) {
  auto done = exchange(call);
  if (!done) return tl::unexpected(done.error());
  if (done->status() == whole) return std::move(done->told.last->body);
  if (done->status() == 404 && done->code() == "BlobNotFound")  // by its own code only: a container that is gone says nothing of the object
    return tl::unexpected(Error{Outcome::not_found, fmt::format("There is no {} in the {}.", call.key, describe()), {}});
  if (done->status() == 416 && whole == 206) return Bytes{};  // a range behind the end
  if (done->status() == 200)
    return tl::unexpected(Error{Outcome::unavailable, fmt::format("The {} answers with all of {} where a part was asked for.", describe(), call.key), {}});
  return tl::unexpected(azure_error(done->asked, done->told));
}

Result<Bytes> AzureStore::get(const std::string& key) {
  Call call{.kind = RequestKind::get, .key = key};
  call.max_answer_bytes = wire::kMaxObjectBytes + 1;
  return fetch(call, 200);
}

Result<Bytes> AzureStore::get_range(const std::string& key, std::uint64_t from, std::uint64_t size) {
  if (size == 0) return Bytes{};
  size = std::min<std::uint64_t>({size, wire::kMaxObjectBytes + 1, ~std::uint64_t{0} - from});
  Call call{.kind = RequestKind::get, .key = key};
  call.headers.push_back({"Range", fmt::format("bytes={}-{}", from, from + size - 1)});
  call.max_answer_bytes = std::max(size, kMaxAzureAnswer);
  return fetch(call, 206);
}

Result<PutOutcome> AzureStore::put_if_absent(const std::string& key, ByteView bytes) {
  Call call{.kind = RequestKind::create, .method = "PUT", .key = key};
  call.headers = {{"x-ms-blob-type", "BlockBlob"}, {"If-None-Match", "*"}};
  call.body = bytes;
  auto done = exchange(call);
  if (!done) return tl::unexpected(done.error());
  if (done->status() == 201) return PutOutcome::created;
  if (done->status() == 409 && done->code() == "BlobAlreadyExists") return PutOutcome::exists;  // perhaps by an attempt of our own: the home reads whose it is
  if (done->status() == 412) return PutOutcome::exists;
  // Only Azure's own word is a definite refusal, and only of this attempt (I4).
  if (done->told.may_have_landed || (done->told.last && done->code().empty())) return PutOutcome::unknown;
  return tl::unexpected(azure_error(done->asked, done->told));
}

Result<> AzureStore::put(const std::string& key, ByteView bytes) {
  Call call{.kind = RequestKind::put, .method = "PUT", .key = key};
  call.headers = {{"x-ms-blob-type", "BlockBlob"}};
  call.body = bytes;
  auto done = exchange(call);
  if (!done) return tl::unexpected(done.error());
  if (done->status() == 201) return {};
  return tl::unexpected(azure_error(done->asked, done->told));
}

Result<> AzureStore::erase(const std::string& key) {
  Call call{.kind = RequestKind::erase, .method = "DELETE", .key = key};
  call.headers = {{"x-ms-delete-snapshots", "include"}};
  auto done = exchange(call);
  if (!done) return tl::unexpected(done.error());
  if (done->status() == 202 || (done->status() == 404 && done->code() == "BlobNotFound")) return {};
  return tl::unexpected(azure_error(done->asked, done->told));
}

Result<std::vector<std::string>> AzureStore::list(const std::string& folder, const std::string& after, std::size_t limit) {
  const std::string above = in_container(folder);
  const std::string prefix = above.empty() || above.ends_with('/') ? above : above + "/";
  std::vector<std::string> names;
  std::string next;
  while (names.size() < limit) {
    Call call{.kind = RequestKind::list};
    call.query = {{"restype", "container"}, {"comp", "list"}, {"delimiter", "/"}};
    if (!prefix.empty()) call.query.emplace_back("prefix", prefix);
    call.query.emplace_back("maxresults", std::to_string(after.empty() ? std::min(limit - names.size(), kAzurePage) : kAzurePage));
    if (!next.empty()) call.query.emplace_back("marker", next);
    call.max_answer_bytes = kMaxAzureList;
    auto done = exchange(call);
    if (!done) return tl::unexpected(done.error());
    done->asked.key = folder;
    if (done->status() != 200) return tl::unexpected(azure_error(done->asked, done->told));
    const auto page = parse_azure_page(done->told.last->body);
    if (!page) return tl::unexpected(Error{Outcome::unavailable, fmt::format("The {} lists '{}' with what is no listing of Azure.", describe(), folder), {}});
    add_names(*page, prefix, after, names);
    next = page->next;
    if (next.empty()) break;
  }
  return first_names(std::move(names), limit);
}

}  // namespace

std::unique_ptr<ObjectStore> make_azure_store(Runtime& runtime, AzurePlace place, std::function<Result<AzureKeys>()> keys, AzureParts parts) {
  ONEPEN_CHECK(keys && parts.http && parts.metrics, "an Azure store has keys, a transport and counters");
  return std::make_unique<AzureStore>(runtime, std::move(place), std::move(keys), std::move(parts));
}

}  // namespace onepen::home
