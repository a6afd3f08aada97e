// The two files of a database that we stand before: the database file (locks, wal-index, pragmas) and its WAL (frames). Everything else goes straight to
// the platform VFS. Layout of an sqlite3_file of ours: our object, then the platform's file behind it in the same allocation.
//
// io_methods version 2: without xFetch SQLite maps no memory, so every read and write passes here.
// Thread-safety: as SQLite's files, one thread at a time each. No exception leaves a method.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <type_traits>

#include "sqlite/api.h"
#include "sqlite/capture.h"
#include "sqlite/capture_watch.h"
#include "sqlite/registry.h"
#include "sqlite/wal_file.h"

namespace onepen::sqlite {

// sqlite3_file_control with this number on a database of ours fills an OpenDatabase*: how our SQL functions find it, through any VFS above us.
inline constexpr int kDatabaseOp = 1'330'529'617;
inline constexpr int kIndexRegionBytes = 32768;  // of the wal-index (wal.c)

// No exception leaves a VFS method: SQLite is C.
template <class Body>
int no_throw(Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return SQLITE_NOMEM;
  }
}

class MainFile : public sqlite3_file {
 public:
  // `real`: opened; in the memory right behind. `name`: as given to xOpen, alive as long as the file.
  MainFile(sqlite3_file* real, const char* name, Registry& registry, std::shared_ptr<OpenDatabase> database);
  static const sqlite3_io_methods kMethods;

  sqlite3_file* real() const { return real_; }
  const char* name() const { return name_; }
  OpenDatabase& database() { return *database_; }
  Registry& registry() { return registry_; }
  CaptureWatch& watch() { return database_->watch(); }
  sqlite3* connection() const {
    sqlite3** const at = connection_.load();
    return at != nullptr ? *at : nullptr;
  }
  bool landed() const { return landed_; }  // a commit of this connection landed and its write lock is not released yet
  void note_landed();
  bool take_sync_after_commit() { return std::exchange(sync_expected_, false); }
  bool interrupted();
  // A frame header that commits is written, or rewritten. durability=local: what SQLite publishes tells whether the commit was made.
  void note_commit_frame(const CommitFrameHeader& header) { commit_frame_ = header; }
  const std::optional<CommitFrameHeader>& commit_frame() const { return commit_frame_; }
  // What the running transaction is chained to: the frames that counted when the write lock was taken, and the checksum up to there.
  WalSlot chain_begin() const { return chain_begin_; }
  const WalChecksum& chain() const { return chain_; }
  void chain_from(WalSlot slot, WalChecksum sum) { chain_begin_ = slot, chain_ = sum; }
  std::uint32_t published_pages() const { return published_pages_; }  // of the database, when the write lock was taken

  int shm_lock(int offset, int n, int flags);
  int sync(int flags);
  int write(const void* bytes, int size, sqlite3_int64 offset);
  int lock(int level);
  int unlock(int level);
  bool write_locked() const { return write_locked_; }  // by this connection, on the wal-index: without it nothing tells where a commit begins and ends
  bool locked_exclusive() const { return level_ == SQLITE_LOCK_EXCLUSIVE; }
  int control(int op, void* argument);
  bool keeps_wal() const { return keep_wal_; }
  bool wal_ends();  // OpenDatabase::wal_ends, with this connection's file
  int unmap_index(int remove);
  int close();
  // A sync of the copy failed: what the kernel still has of it is not known.
  int sync_failed(int rc);
  int wal_sync_failed(int rc);  // durability=local

 private:
  std::optional<WalIndexHeader> read_index();
  int refuse_begin(const Reset& reset);
  int begin_read(int offset, int n, int flags);
  int take_write_lock(int offset, int n, int flags);
  void release_write_lock();
  void settle_local_commit(const std::optional<WalIndexHeader>& header);
  int lock_restart(int offset, int n, int flags);
  int lock_checkpoint(int offset, int flags, bool after_commit);
  std::uint32_t read_backfilled();
  int pragma(char** argument);

  sqlite3_file* real_;
  const char* name_;
  Registry& registry_;
  std::shared_ptr<OpenDatabase> database_;
  std::atomic<sqlite3**> connection_ = nullptr;  // SQLITE_FCNTL_PDB
  int level_ = SQLITE_LOCK_NONE;  // of the database file
  bool reading_ = false;          // holds a read mark: a read transaction is open
  bool write_locked_ = false, landed_ = false, sync_expected_ = false;
  bool checkpointing_ = false;  // holds the checkpoint lock
  bool just_published_ = false;  // a commit, and nothing was asked for since
  bool keep_wal_ = false;  // what is in it could not be merged: it must not be deleted
  std::uint32_t published_pages_ = 0;
  WalSlot chain_begin_ = 0;
  WalChecksum chain_;
  std::optional<CommitFrameHeader> commit_frame_;  // of the running transaction
};

// What a commit needs of the connection's files.
class ConnectionFiles final : public CommitFiles {
 public:
  ConnectionFiles(sqlite3_file* wal, MainFile* main) : wal_(wal), main_(main) {}
  int read_slot(WalSlot slot, std::span<std::byte> image) override;
  int read_database_page(std::uint32_t number, std::span<std::byte> image) override;
  int reserve(WalSlot slot, std::span<const std::byte> image) override;
  int write_frame_header(WalSlot slot, std::span<const std::uint8_t> header) override;
  bool interrupted() override { return main_->interrupted(); }

 private:
  sqlite3_file* wal_;
  MainFile* main_;
};

class WalFile : public sqlite3_file {
 public:
  WalFile(sqlite3_file* real, MainFile* main);
  static const sqlite3_io_methods kMethods;

  sqlite3_file* real() const { return real_; }
  int read(void* bytes, int size, sqlite3_int64 offset);
  int write(const void* bytes, int size, sqlite3_int64 offset);
  int truncate(sqlite3_int64 size);
  int sync(int flags);

 private:
  int write_captured(const std::uint8_t* bytes, int size, sqlite3_int64 offset);
  int write_local(const WalWrite& write, const std::uint8_t* bytes, int size, sqlite3_int64 offset);
  int begin_wal(const std::uint8_t* header);
  int read_checksum(void* bytes, sqlite3_int64 offset);
  int after_commit(int rc, const char* what);

  sqlite3_file* real_;
  MainFile* main_;
  ConnectionFiles files_;
  std::optional<CommitFrameHeader> held_;
};

// SQLite reads pMethods at the object's beginning: no vtable may stand there.
static_assert(!std::is_polymorphic_v<MainFile> && !std::is_polymorphic_v<WalFile>);

std::string exclusive_sentence();
std::string rollback_sentence();
void forget_main_file(MainFile* file);  // vfs.h
// The names of other databases whose part of this connection's COMMIT is in their streams already: SQLite commits one database after the other.
std::string landed_beside(const MainFile& file);  // vfs.h

}  // namespace onepen::sqlite
