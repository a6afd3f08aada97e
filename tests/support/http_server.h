// A small HTTP/1.1 server on loopback that answers what a test says: the other end of our HTTP client and of the bucket stores. It may also end a connection
// without an answer, or in the middle of one, or never answer. Thread-safe; the handler runs on a thread of each connection. The destructor ends them all.
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace onepen::testing {

struct WebRequest {
  std::string method, target, body;                // target: path and query, as they came
  std::map<std::string, std::string> headers;      // names in lower case
  std::string header(const std::string& name) const {
    const auto at = headers.find(name);
    return at == headers.end() ? "" : at->second;
  }
  std::string path() const { return target.substr(0, target.find('?')); }
  std::string query() const { return target.find('?') == std::string::npos ? "" : target.substr(target.find('?') + 1); }
};

struct WebReply {
  enum class Way { whole, no_answer, half_a_body, silence };
  int status = 200;
  std::string body{};
  std::vector<std::pair<std::string, std::string>> headers{};
  Way way = Way::whole;
};

class HttpServer {
 public:
  explicit HttpServer(std::function<WebReply(const WebRequest&)> handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url() const;  // http://127.0.0.1:port
  std::vector<WebRequest> requests() const;
  std::size_t connections() const;  // accepted so far

 private:
  void accept_all();
  void serve(int fd);
  bool answer(int fd, const WebRequest& request);

  const std::function<WebReply(const WebRequest&)> handler_;
  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  bool ended_ = false;
  std::set<int> open_;
  std::vector<std::thread> threads_;
  std::vector<WebRequest> requests_;
  std::size_t connections_ = 0;
  std::thread acceptor_;
};

// A port of loopback on which nobody listens, as of now.
int free_port();

}  // namespace onepen::testing
