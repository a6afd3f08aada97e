// What was moved aside on this machine instead of being deleted: copies with commits that their stream does not have, and copies that were not trusted.
// For the command line. Nothing here changes an entry, but remove_salvage(). Thread-safe; blocking.
//
//   <cache root>/salvage/<name>/<time>-<kind>/   manifest.json  db  db-wal  state  pages      docs/formats/copy-state.md
#pragma once
#include <string>
#include <vector>

#include "io/disk.h"
#include "sqlite/copy.h"

namespace onepen::sqlite {

struct SalvageEntry {
  std::string folder;    // absolute
  std::string id;        // <name>/<time>-<kind>, '/' in the name as %2F
  std::string name;      // of the database
  std::string home_url;
  std::string kind;      // "fenced", "rewound", "diverged", "broken"
  std::string why;       // a sentence
  std::string moved_at;  // 2026-11-29T20:16:37Z
  CommitState acknowledged;                  // the newest commit of it that was known to be in the stream
  std::optional<core::OwnerToken> owned{};   // the ownership under which it was written; none: never owned, or not told (older manifests)
  std::vector<PendingCommit> unsent;         // commits that the stream did not have; page_sum 0: not known
  bool unsent_known = true;                  // false: some of them may be in the stream, or more than these are not
  bool has_database = false;
  std::uint64_t bytes = 0;                   // of its files
  std::string trouble;                       // why the manifest could not be read; the other fields are what the folder's name says then
};

std::string salvage_folder(const std::string& cache_root);

// How many of its acknowledged commits may be nowhere else: those of a copy whose stream was put back, restored or deleted since (kind "rewound") were in the
// stream once, and it has dropped or lost some of them, or all. 0: the stream has what it acknowledged.
std::uint64_t perhaps_dropped(const SalvageEntry& entry);

// All entries, oldest first; of one database when `name` is given. No folder: none. Errors: unavailable.
Result<std::vector<SalvageEntry>> list_salvage(io::Disk& disk, const std::string& cache_root, const std::optional<StreamName>& name = {});

// `id`: an entry's id, the last part of it when that is one entry's only, or its folder. Errors: not_found (names what there is), invalid (several).
Result<SalvageEntry> find_salvage(io::Disk& disk, const std::string& cache_root, const std::string& id);

// The manifest as it was written: JSON, for people and tools.
Result<std::string> salvage_manifest(io::Disk& disk, const SalvageEntry& entry);

// Makes a plain SQLite database of the entry: db with everything of db-wal in it, the unsent commits included. The entry is only read. Errors: invalid (the
// file exists), not_found (the entry holds no database), unavailable (disk). On an error no file is left.
Result<> export_salvage(io::Disk& disk, const SalvageEntry& entry, const std::string& target);

// Deletes an entry, with what was never sent: only because somebody said so; nothing else deletes one. The manifest goes last, so that what a failure leaves is
// still told. Errors: unavailable.
Result<> remove_salvage(io::Disk& disk, const SalvageEntry& entry);

}  // namespace onepen::sqlite
