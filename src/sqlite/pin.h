// A commit of the running copy held still, so that its pages can be read while SQLite goes on: what a snapshot is made from.
//
// While a PinnedCopy lives, the WAL is not begun anew and nothing is copied from it into the database file (checkpoints find it busy), so the image of each
// page at that commit is either in the WAL, at or before the commit's last frame, or in the database file. SQLite's own locks are not touched.
// Thread-safety: one thread; any thread. It must not outlive the open database.
#pragma once
#include <memory>
#include <span>

#include "sqlite/copy.h"

namespace onepen::sqlite {

class PinnedCopy {
 public:
  virtual ~PinnedCopy() = default;                 // lets go
  virtual const CommitState& state() const = 0;    // a commit that is acknowledged
  // The page's image at that commit. `image`: page_size bytes. Errors: unavailable (disk).
  virtual Result<> read(std::uint32_t page_number, std::span<std::byte> image) = 0;
  // The WAL has grown too far meanwhile, or the database is being closed: give up.
  virtual bool overdue() const = 0;
};

}  // namespace onepen::sqlite
