// A bucket in memory that speaks S3 on loopback, path style, with conditions kept. `instead` may answer in its place: a throttled, broken or lying store, or
// one that does what was asked and loses the answer (`answer`). It checks that requests are signed, not the signatures (aws_sigv4_test.cc has the vectors).
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tests/support/http_server.h"

namespace onepen::testing {

class FakeS3 {
 public:
  explicit FakeS3(std::string bucket) : bucket_(std::move(bucket)), server_([this](const WebRequest& request) { return reply(request); }) {}

  std::string url() const { return server_.url(); }
  std::vector<WebRequest> requests() const { return server_.requests(); }
  std::map<std::string, std::string> objects() const {
    const std::lock_guard lock(mutex_);
    return objects_;
  }
  void instead(std::function<std::optional<WebReply>(const WebRequest&)> hook) {
    const std::lock_guard lock(mutex_);
    instead_ = std::move(hook);
  }
  // The coming answers are this one, so many times.
  void next(WebReply reply, int times = 1);
  WebReply answer(const WebRequest& request);  // what a good store says, having done it
  bool keeps_conditions = true;                // set before the first request
  std::size_t page = 1000;

  static WebReply error(int status, const std::string& code, const std::string& more = "", std::vector<std::pair<std::string, std::string>> headers = {});

 private:
  WebReply reply(const WebRequest& request);
  WebReply list(const WebRequest& request);

  const std::string bucket_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> objects_;
  std::function<std::optional<WebReply>(const WebRequest&)> instead_;
  HttpServer server_;  // last: it ends first
};

}  // namespace onepen::testing
