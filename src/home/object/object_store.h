// The object-store port: what a directory (file_store.h) and a bucket (issue "Buckets") have in common. Blocking; thread-safe.
//
// Keys are '/'-separated relative names of [A-Za-z0-9._-]. A store is strongly consistent: a get or list begun after a put was answered sees it.
// `put_if_absent` is the one linearisation point of Onepen's object home (homes.md, 1).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <onepen/result.h>
#include "base/bytes.h"

namespace onepen::home {

enum class PutOutcome : std::uint8_t {
  created,  // durable, under this name, and ours
  exists,   // somebody's object (perhaps our own earlier attempt) has the name; read it to know (B2)
  unknown,  // may land now, later or never
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  virtual Result<Bytes> get(const std::string& key) = 0;  // not_found when absent; unavailable when it cannot be told
  virtual Result<Bytes> get_range(const std::string& key, std::uint64_t from, std::uint64_t size) = 0;
  virtual Result<PutOutcome> put_if_absent(const std::string& key, ByteView bytes) = 0;  // an Error is a definite refusal: certainly not written
  virtual Result<> put(const std::string& key, ByteView bytes) = 0;                      // overwrites; for advice only (liveness, hints)
  // Keys directly under `folder` (its names, not full keys), sorted, strictly after `after`, at most `limit`. An absent folder is empty.
  virtual Result<std::vector<std::string>> list(const std::string& folder, const std::string& after, std::size_t limit) = 0;
  virtual Result<> erase(const std::string& key) = 0;  // absent is fine
  // Whether an object is there, at a place where that costs next to nothing (a directory); none: it would cost a request, or cannot be told.
  virtual std::optional<bool> has(const std::string& key) {
    (void)key;
    return std::nullopt;
  }
  // How many requests are worth having under way at a time: more than one where each waits for a network, not for this machine.
  virtual std::size_t at_once() const { return 1; }
  virtual std::string describe() const = 0;            // for messages: "directory /srv/onepen"
};

}  // namespace onepen::home
