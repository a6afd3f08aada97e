// The object home (homes.md, 1): streams as runs of log objects in a directory or bucket, each object created only if absent. No server, no lock: the
// create is the commit and the fence, by rules B1-B4, B6 and B7, which the code cites.
//
// Reading, listing, stat and history issue no write. A log that cannot be right (an object damaged, missing in the middle, of another stream, or not
// following the one before it) stops every reader and claimer with `fence_unavailable` and a message that names the object and says what to do; an object
// of a newer format stops them with `invalid`. Nothing is ever rebuilt over it.
// Thread-safety: ObjectHome is thread-safe when its store is; a stream session is used by one thread at a time.
#pragma once
#include <functional>
#include <memory>

#include "base/log.h"
#include "base/runtime.h"
#include "core/home.h"
#include "home/object/object_store.h"

namespace onepen::home {

struct ObjectHomeOptions {
  std::string url;  // without secrets; for messages and as the home's name
  core::Pace pace{};  // of wait(), and of whoever looks by itself
  // Runs once before the first claim through this home, and again until it succeeds: the place is made, and proves that it can fence. Its error refuses the
  // claim. May be empty.
  std::function<Result<>()> prepare_writing{};
  std::function<core::RequestCounts()> requests{};  // Home::requests(); may be empty
};

// `runtime` outlives the home.
std::unique_ptr<core::Home> make_object_home(Runtime& runtime, std::unique_ptr<ObjectStore> store, ObjectHomeOptions options);

}  // namespace onepen::home
