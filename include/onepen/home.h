// onepen/home.h: the place that keeps streams and checks their fences.
//
// Concept: a Home is named by one URL (file:///srv/onepen, s3://bucket/prefix, az://container/prefix). Databases, leases and gates live in it by name;
// whoever opens one by name for writing becomes its only writer, and the home refuses everybody before it. Opening a Home looks and writes nothing.
// Thread-safety: thread-safe; cheap to copy (copies share one home). It may be destroyed before what was opened through it.
#pragma once
#include <onepen/result.h>

#include <memory>
#include <vector>

namespace onepen {

class HomePort;  // inside Onepen

struct HomeOptions {
  // What a home that needs one is told; never in the URL. s3: "KEY_ID:SECRET" or "KEY_ID:SECRET:SESSION_TOKEN"; az: an account key, a SAS token or a
  // connection string; file: needs none. Empty: ONEPEN_CREDENTIAL, else as the tools of AWS and Azure find theirs.
  std::string credential;
  std::string ca_file;               // certificates to trust over TLS; empty: AWS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE, else the system's
  Duration request_timeout{10'000};  // of one request, after which its answer is `unknown` or `unavailable`; file: waits for the disk
};

class Home {
 public:
  // Errors: invalid (not the URL of a home, a secret in it, a scheme of a later version, a place that cannot keep two writers apart: the message has the
  // evidence), not_found (no folder there, nor above it), unauthorised (no permission to read it). A bucket is not asked anything yet: the first call tells.
  static Result<Home> open(std::string_view url, HomeOptions options = {});
  // Names of databases that begin with `prefix`, sorted. Writes nothing. Errors: unavailable, unauthorised.
  Result<std::vector<std::string>> list(std::string_view prefix = "") const;
  // Who writes `name` now; asked of the home after the call began, writes nothing. An owner with epoch 0: nobody.
  // Errors: not_found, invalid (no name of a database, or written by a newer Onepen), fence_unavailable (its log is damaged: the message says where).
  Result<Owner> owner(std::string_view name) const;
  std::string_view url() const;  // without secrets

  const std::shared_ptr<HomePort>& port() const { return port_; }  // for Onepen itself

 private:
  explicit Home(std::shared_ptr<HomePort> port) : port_(std::move(port)) {}
  std::shared_ptr<HomePort> port_;
};

}  // namespace onepen
