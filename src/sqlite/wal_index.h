// The index of a WAL (the "-shm" beside a database), written as SQLite writes it when it commits: so that a follower can put frames of its own into the WAL while
// SQLite connections of this process and of others read (sqlite.org/walformat, "WAL-Index format"; wal.c of SQLite 3.40: walIndexAppend, walIndexWriteHdr,
// walCleanupHash, walRestartHdr).
//
//   region 0 (32 KiB): header twice | checkpoint info | page numbers of frames 1..4062 | hash table       region n: page numbers of 4096 frames | hash table
//
// A reader takes the header once and looks only at frames up to its frame count: entries behind it are nobody's until publish() moves the header over them, in one
// step (I9: one boundary between two commits, or the other). It waits for nobody: it needs neither lock that is taken here but while a WAL is begun anew.
// Thread-safety: none. What changes the index needs the write lock.
#pragma once
#include <cstdint>
#include <optional>

#include <onepen/result.h>
#include "sqlite/api.h"
#include "sqlite/capture_watch.h"
#include "sqlite/wal_file.h"

namespace onepen::sqlite {

// What the header says of the WAL: its last frame that counts, and what the next one is chained to.
struct WalHead {
  std::uint32_t frames = 0, page_count = 0, page_size = 0;
  std::uint32_t salt1 = 0, salt2 = 0;
  WalChecksum sum{};
  bool operator==(const WalHead&) const = default;
};

class WalIndex {
 public:
  // A database file opened through the platform's VFS, in WAL mode; its own handle, not used by a connection. Outlives this.
  explicit WalIndex(sqlite3_file* file) : file_(file) {}
  ~WalIndex();
  WalIndex(const WalIndex&) = delete;
  WalIndex& operator=(const WalIndex&) = delete;

  // The write lock. false: somebody has it for the moment (recovery, a checkpoint that ends the WAL, a writer that is not ours). Errors: unavailable.
  Result<bool> try_lock();
  void unlock();
  // The header as it is; none: there is none yet, or it is being written. Errors: unavailable.
  Result<std::optional<WalIndexHeader>> header() const;

  // Frame `frame` holds `page`; frames in order, from the first behind the header's. Errors: unavailable; invalid: the index is damaged.
  Result<> add(std::uint32_t frame, std::uint32_t page);
  // The header says `head` from here on. Every reader that begins later sees all of it. Errors: unavailable.
  Result<> publish(const WalHead& head);
  // Frames that checkpoints have copied into the database file. Errors: unavailable.
  Result<std::uint32_t> copied() const;
  // True: everything was copied, and nobody reads from the WAL, nor begins to before free_readers() (who begins to read meanwhile needs nothing of it, and does not
  // wait). False: somebody does, or not everything was copied.
  Result<bool> try_hold_readers();
  void free_readers();
  // Between the two: the WAL begins anew, with no frame and these salts; `head` says so afterwards.
  Result<> restart(WalHead& head, std::uint32_t salt1, std::uint32_t salt2);

 private:
  Result<volatile std::uint8_t*> region(std::uint32_t number) const;
  Result<> forget_behind(std::uint32_t frames);
  Result<bool> try_shm_lock(int slot, int n);
  void shm_unlock(int slot, int n);

  sqlite3_file* file_;
  mutable bool mapped_ = false;
  bool locked_ = false, readers_held_ = false;
};

}  // namespace onepen::sqlite
