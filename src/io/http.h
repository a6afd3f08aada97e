// The HTTP client: one blocking exchange at a time, over libcurl, which stays in http_client.cc. For buckets and the places that hand out credentials.
//
// It sends a request once and says what is known of it afterwards: answered, certainly never sent, or unknown (sent, at least in part, and no whole answer).
// Nobody above may take `unknown` for anything else (I4). It never follows a redirect, never repeats a request that may have arrived - but for one case of
// curl's own: a kept connection that the server had closed before a byte of the answer came is opened anew and the same bytes are sent again. So a create may
// arrive twice, byte-identical, and be answered "exists"; B2 reads what is there.
// TLS certificates are always verified. Connections are kept and used again. Thread-safe: up to `connections` requests at once, further ones wait their turn.
// Nothing throws. Messages never repeat a URL, a header or a body: they may hold secrets.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>
#include "base/bytes.h"

namespace onepen::io {

inline constexpr std::size_t kMaxHttpHeaderBytes = 64u << 10;  // of one answer; a longer one is no answer

struct HttpHeader {
  std::string name, value;
  bool operator==(const HttpHeader&) const = default;
};

struct HttpRequest {
  std::string method = "GET";  // GET, HEAD, PUT, POST, DELETE; the last three of them may carry a body
  std::string url;             // http or https, percent-encoded already; it goes out as it stands
  std::vector<HttpHeader> headers{};
  ByteView body{};
  std::uint64_t max_answer_bytes = 1u << 20;  // a longer body is HttpFault::too_large
};

struct HttpAnswer {
  int status = 0;
  std::vector<HttpHeader> headers{};  // names in lower case
  Bytes body{};
  std::string_view header(std::string_view name) const;  // empty: it is not there
};

enum class HttpFault : std::uint8_t {
  name_not_resolved,
  not_connected,  // refused, no route, or no connection in time
  tls,            // the certificate could not be verified, or no common protocol
  timed_out,      // connected, and then too slow or silent
  too_large,      // the answer
  broken,         // the connection ended in the middle, or what came is no HTTP
};
struct HttpFailure {
  HttpFault fault = HttpFault::broken;
  bool may_have_arrived = true;  // false: certainly not a byte of the request was sent
  std::string message;           // what curl says of it
  bool answer_began = false;     // the first line of an answer came; else what listens there may be no HTTP server
};
using HttpResult = tl::expected<HttpAnswer, HttpFailure>;

struct HttpOptions {
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds silence{10'000};   // no byte in either direction for so long ends a request
  std::uint64_t slowest = 64u << 10;           // bytes a second: a request may take `silence` and the time its bytes take at this rate
  std::size_t connections = 16;
  std::string ca_file;                         // certificates to trust; empty: those of the system
  bool direct = false;                         // never through a proxy of the environment (http_proxy, https_proxy, no_proxy)
};

class HttpClient {
 public:
  virtual ~HttpClient() = default;
  virtual HttpResult send(const HttpRequest& request) = 0;
};

std::unique_ptr<HttpClient> make_http_client(HttpOptions options);

}  // namespace onepen::io
