#include "tests/support/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <stdexcept>

namespace onepen::testing {
namespace {

int bound_socket(int& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&at), size) != 0 || ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    throw std::runtime_error("no loopback socket");
  port = ntohs(at.sin_port);
  return fd;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// What came so far, until `end` bytes are there; false: the other end has closed.
bool fill(int fd, std::string& buffer) {
  char chunk[65536];
  const auto got = ::recv(fd, chunk, sizeof(chunk), 0);
  if (got <= 0) return false;
  buffer.append(chunk, static_cast<std::size_t>(got));
  return true;
}

bool send_all(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto sent = ::send(fd, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += static_cast<std::size_t>(sent);
  }
  return true;
}

std::optional<WebRequest> next_request(int fd, std::string& buffer) {
  constexpr char kTlsHello = 0x16;
  std::size_t head = 0;
  while ((head = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (!fill(fd, buffer)) return std::nullopt;
    if (buffer[0] == kTlsHello) {  // as servers that do not speak it
      (void)send_all(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
      return std::nullopt;
    }
  }
  WebRequest request;
  const std::string lines = buffer.substr(0, head + 2);
  request.method = lines.substr(0, lines.find(' '));
  request.target = lines.substr(request.method.size() + 1);
  request.target = request.target.substr(0, request.target.find(' '));
  for (std::size_t at = lines.find("\r\n") + 2; at < lines.size();) {
    const auto end = lines.find("\r\n", at), colon = lines.find(':', at);
    auto value = lines.substr(colon + 1, end - colon - 1);
    value.erase(0, value.find_first_not_of(' '));
    request.headers[lower(lines.substr(at, colon - at))] = value;
    at = end + 2;
  }
  buffer.erase(0, head + 4);
  const auto length = static_cast<std::size_t>(std::strtoull(request.header("content-length").c_str(), nullptr, 10));
  while (buffer.size() < length)
    if (!fill(fd, buffer)) return std::nullopt;
  request.body = buffer.substr(0, length);
  buffer.erase(0, length);
  return request;
}

}  // namespace

HttpServer::HttpServer(std::function<WebReply(const WebRequest&)> handler) : handler_(std::move(handler)) {
  listener_ = bound_socket(port_);
  if (::listen(listener_, 64) != 0) throw std::runtime_error("cannot listen on loopback");
  acceptor_ = std::thread([this] { accept_all(); });
}

HttpServer::~HttpServer() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  acceptor_.join();
  for (auto& thread : threads_) thread.join();  // nobody adds any more
  ::close(listener_);
}

std::string HttpServer::url() const { return "http://127.0.0.1:" + std::to_string(port_); }
std::vector<WebRequest> HttpServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}
std::size_t HttpServer::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_;
}

void HttpServer::accept_all() {
  for (;;) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    const std::lock_guard lock(mutex_);
    if (ended_) {
      ::close(fd);
      return;
    }
    ++connections_;
    open_.insert(fd);
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void HttpServer::serve(int fd) {
  std::string buffer;
  while (auto request = next_request(fd, buffer)) {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(*request);
    }
    if (!answer(fd, *request)) break;
  }
  const std::lock_guard lock(mutex_);
  open_.erase(fd);
  ::close(fd);
}

bool HttpServer::answer(int fd, const WebRequest& request) {
  const WebReply reply = handler_(request);
  if (reply.way == WebReply::Way::no_answer) return false;
  if (reply.way == WebReply::Way::silence) {  // until the client, or the test, has enough
    std::string rest;
    while (fill(fd, rest)) rest.clear();
    return false;
  }
  std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " Said\r\n";
  for (const auto& [name, value] : reply.headers) head += name + ": " + value + "\r\n";
  const bool no_body = request.method == "HEAD" || reply.status == 204;
  if (reply.status != 204) head += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
  head += "\r\n";
  if (!no_body) head += reply.way == WebReply::Way::half_a_body ? reply.body.substr(0, reply.body.size() / 2) : reply.body;
  return send_all(fd, head) && reply.way == WebReply::Way::whole;
}

int free_port() {
  int port = 0;
  ::close(bound_socket(port));
  return port;
}

}  // namespace onepen::testing
