#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

#include "base/check.h"
#include "base/mutex.h"
#include "io/http.h"

namespace onepen::io {
namespace {

constexpr std::chrono::seconds kTurnSlice{1};  // of the wait for a free connection; each wait ends by a notice

// A write to a connection that the server closed must not end the host program. curl would change the process's handler for SIGPIPE, which is the host's.
class SigpipeHeld {
 public:
  SigpipeHeld() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeHeld() {
    const timespec now{};
    if (!was_pending_)
      while (sigtimedwait(&pipe_, nullptr, &now) > 0) {
      }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeHeld(const SigpipeHeld&) = delete;
  SigpipeHeld& operator=(const SigpipeHeld&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

struct Incoming {
  HttpAnswer answer;
  std::uint64_t max_bytes = 0;
  std::uint64_t told_bytes = 0;  // Content-Length; only a hint of how much room the body needs
  std::size_t header_bytes = 0;
  bool too_large = false;
};

std::size_t take_body(char* data, std::size_t, std::size_t size, void* to) {
  auto& in = *static_cast<Incoming*>(to);
  if (in.answer.body.size() + size > in.max_bytes) {
    in.too_large = true;
    return CURL_WRITEFUNC_ERROR;
  }
  // A body that grows by doubling touches fresh pages each time it does.
  if (in.answer.body.empty()) in.answer.body.reserve(std::min(in.told_bytes, in.max_bytes));
  const auto bytes = as_bytes({data, size});
  in.answer.body.insert(in.answer.body.end(), bytes.begin(), bytes.end());
  return size;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos ? std::string_view{} : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::size_t take_header(char* data, std::size_t, std::size_t size, void* to) {
  auto& in = *static_cast<Incoming*>(to);
  const std::string_view line(data, size);
  in.header_bytes += size;
  if (in.header_bytes > kMaxHttpHeaderBytes) {
    in.too_large = true;
    return 0;
  }
  if (line.starts_with("HTTP/")) in.answer.headers.clear();  // what came before belonged to a proxy, or to a 100
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return size;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  const auto value = trimmed(line.substr(colon + 1));
  if (name == "content-length") std::from_chars(value.data(), value.data() + value.size(), in.told_bytes);
  in.answer.headers.push_back({std::move(name), std::string(value)});
  return size;
}

HttpFault fault_of(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY: return HttpFault::name_not_resolved;
    case CURLE_COULDNT_CONNECT: return HttpFault::not_connected;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR: return HttpFault::tls;
    case CURLE_OPERATION_TIMEDOUT: return HttpFault::timed_out;
    default: return HttpFault::broken;
  }
}

class CurlClient final : public HttpClient {
 public:
  explicit CurlClient(HttpOptions options) : options_(std::move(options)) {
    curl_global_init(CURL_GLOBAL_DEFAULT);  // counted, and thread-safe in the curl of Debian 12
    free_.reserve(options_.connections);
  }
  ~CurlClient() override {
    for (CURL* handle : free_) curl_easy_cleanup(handle);
    curl_global_cleanup();
  }
  CurlClient(const CurlClient&) = delete;
  CurlClient& operator=(const CurlClient&) = delete;

  HttpResult send(const HttpRequest& request) override {
    CURL* handle = take();
    auto answer = handle == nullptr ? tl::unexpected(HttpFailure{HttpFault::not_connected, false, "out of memory"}) : perform(handle, request);
    give_back(handle);
    return answer;
  }

 private:
  CURL* take() {
    const Lock lock(mutex_);
    while (busy_ >= options_.connections) turn_.wait_for(mutex_, kTurnSlice);
    ++busy_;
    if (free_.empty()) return curl_easy_init();
    CURL* handle = free_.back();
    free_.pop_back();
    return handle;
  }
  void give_back(CURL* handle) {
    const Lock lock(mutex_);
    --busy_;
    if (handle != nullptr) free_.push_back(handle);
    turn_.notify_one();
  }
  void prepare(CURL* handle, const HttpRequest& request);
  HttpResult perform(CURL* handle, const HttpRequest& request);

  const HttpOptions options_;
  Mutex mutex_;
  Condition turn_;
  std::vector<CURL*> free_ ONEPEN_GUARDED_BY(mutex_);
  std::size_t busy_ ONEPEN_GUARDED_BY(mutex_) = 0;
};

void CurlClient::prepare(CURL* handle, const HttpRequest& request) {
  curl_easy_reset(handle);  // keeps its connections
  curl_easy_setopt(handle, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(handle, CURLOPT_PATH_AS_IS, 1L);  // it is signed as it stands
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(handle, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!options_.ca_file.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, options_.ca_file.c_str());
  if (options_.direct) curl_easy_setopt(handle, CURLOPT_NOPROXY, "*");
  const std::uint64_t bytes = request.body.size() + request.max_answer_bytes;
  const auto whole = options_.connect_timeout.count() + options_.silence.count() + static_cast<std::int64_t>(bytes * 1000 / options_.slowest);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));
  curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(whole));
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(options_.silence.count() / 1000)));
  if (request.method == "HEAD") {
    curl_easy_setopt(handle, CURLOPT_NOBODY, 1L);
  } else if (request.method != "GET") {
    curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    if (request.method != "DELETE" || !request.body.empty()) {  // a body that curl has whole: it can send it again on a new connection
      curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request.body.empty() ? "" : as_text(request.body).data());
    }
  }
}

HttpResult CurlClient::perform(CURL* handle, const HttpRequest& request) {
  prepare(handle, request);
  curl_slist* lines = nullptr;
  const auto add = [&](const std::string& line) {
    if (auto* longer = curl_slist_append(lines, line.c_str())) lines = longer;
  };
  // Nothing of curl's own that the caller did not sign, and no wait for a "100 Continue" before a body.
  for (const char* own : {"Expect:", "Content-Type:", "Accept:"}) add(own);
  for (const auto& header : request.headers) add(header.value.empty() ? header.name + ";" : header.name + ": " + header.value);
  Incoming in;
  in.max_bytes = request.max_answer_bytes;
  std::array<char, CURL_ERROR_SIZE> why{};
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, lines);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &in);
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, &in);
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, why.data());
  const SigpipeHeld held;
  const CURLcode code = curl_easy_perform(handle);
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, nullptr);
  curl_slist_free_all(lines);
  long status = 0, sent = 0;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(handle, CURLINFO_REQUEST_SIZE, &sent);
  if (code == CURLE_OK && status >= 200) {
    in.answer.status = static_cast<int>(status);
    return std::move(in.answer);
  }
  const std::string message = why[0] != '\0' ? why.data() : code == CURLE_OK ? "what came is no HTTP answer" : curl_easy_strerror(code);
  if (in.too_large) return tl::unexpected(HttpFailure{HttpFault::too_large, true, "the answer is longer than any that was expected", true});
  const auto fault = fault_of(code);
  // curl counts what it wrote of the request, an attempt on a kept connection included.
  const bool silent_connect = fault == HttpFault::timed_out && sent == 0;
  return tl::unexpected(HttpFailure{silent_connect ? HttpFault::not_connected : fault, sent > 0, message, in.header_bytes > 0});
}

}  // namespace

std::string_view HttpAnswer::header(std::string_view name) const {
  const auto at = std::find_if(headers.begin(), headers.end(), [&](const HttpHeader& one) { return one.name == name; });
  return at == headers.end() ? std::string_view{} : std::string_view(at->value);
}

std::unique_ptr<HttpClient> make_http_client(HttpOptions options) {
  ONEPEN_CHECK(options.connections > 0 && options.slowest > 0, "an HTTP client has at least one connection");
  return std::make_unique<CurlClient>(std::move(options));
}

}  // namespace onepen::io
