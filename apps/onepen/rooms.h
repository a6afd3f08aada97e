// The rooms below, wired for one command: runtime, disk and the home it speaks to; and the copy of a follower.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "apps/onepen/commands.h"
#include "base/runtime.h"
#include "core/home.h"
#include "io/disk.h"
#include "sqlite/copy.h"
#include "sqlite/plain_sqlite.h"

namespace onepen::app {

struct Rooms {
  std::unique_ptr<Runtime> runtime;  // outlives what is below
  std::unique_ptr<io::Disk> disk;
  std::unique_ptr<core::Home> home;
};

// Errors: invalid (no home given, a URL that is none), whatever the home refuses at opening.
Result<Rooms> open_rooms(const Common&);
// Errors: invalid (no folder for local copies, or one that is not absolute).
Result<> cache_root_given(const Common&);
// Where the local copy of a database lies. Errors: invalid (the name; no cache root).
Result<sqlite::CopyPlace> copy_place(const Common&, const Rooms&, const std::string& name);
// Whether the home itself answers `invalid`: then its URL is wrong (a bucket in another region), and not what is stored there.
bool place_is_invalid(const Common&);
Result<std::unique_ptr<core::Stream>> open_stream(const Rooms&, const std::string& name);

Error from_refusal(const core::Refusal&);

// Where reading begins: empty with the first record, or, where the log is trimmed or was cut by a restore, the oldest snapshot that is kept.
Result<Offset> oldest_of(core::Stream&);
// Hands every record that counts to `take`, from `from` (oldest_of(): everything that is there) to the end as of this call. `bytes_read`, when given, is
// told after each batch.
Result<> each_record(core::Stream&, Offset from, const std::function<void(const core::Record&)>& take,
                     const std::function<void(std::uint64_t bytes)>& bytes_read = {});

// A local copy that was brought up to the end of the log, and plain SQLite on it, read only. Nothing is claimed and nothing written to the home.
struct Follower {
  std::unique_ptr<sqlite::Copy> copy;
  sqlite::PlainConnection db;  // after copy: closed first
};
// Errors: not_found (no such database, or nothing was ever committed), the copy's and the home's.
Result<Follower> open_follower(const Common&, const Rooms&, const std::string& name);

}  // namespace onepen::app
