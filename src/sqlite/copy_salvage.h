// Getting a copy out of the way. One that is not trusted, or holds what the stream does not have, moves into <cache root>/salvage/<name>/<time>-<kind>/ with a
// manifest.json that says why (docs/formats/copy-state.md): its files are renamed, never deleted. One that holds nothing but what the stream has, or had in the
// same history, can be discarded. Thread-safety: none; the caller holds the copy's lock.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/runtime.h"
#include "io/disk.h"
#include "sqlite/copy_find.h"
#include "sqlite/copy_state.h"
#include "wire/commit_frame.h"

namespace onepen::sqlite {

struct Salvage {
  std::string kind;  // "fenced" | "rewound" | "diverged" | "broken"
  std::string why;  // a whole sentence
  CopyPlace place;
  std::string copy_folder;
  std::optional<CopyRecord> expected{};  // what the state file says
  std::optional<FoundDatabase> found{};  // when every page was hashed
  CommitState acknowledged{};  // the newest commit of it that is known to be in the stream
  std::optional<core::OwnerToken> owned{};
  std::vector<PendingCommit> unsent{};  // page_sum 0: not known
  bool unsent_known = true;  // false: some of `unsent` may be in the stream
  BootId boot{};  // now
};

// 'a/b' as one folder name: 'a%2Fb'. Names have no '%' of their own (StreamName).
std::string folder_name(const StreamName& name);

// Deletes a copy's database, of which nothing is unsent; lock and claims stay. A kill in the middle is cured by finish_discarding(). The caller has none of
// the files open. Errors: unavailable.
Result<> discard_copy(io::Disk& disk, const std::string& copy_folder);
Result<> finish_discarding(io::Disk& disk, const std::string& copy_folder);

// Returns the folder it is in now. A kill in the middle is cured by finish_moving_aside(). The caller has none of the files open. Errors: unavailable.
Result<std::string> move_aside(Runtime& runtime, io::Disk& disk, const Salvage& salvage);

// Goes on with a move that was killed in the middle: the rest of the copy follows into the same folder, which is answered; empty: there was none.
// Errors: unavailable.
Result<std::string> finish_moving_aside(io::Disk& disk, const std::string& copy_folder, const Log& log);

}  // namespace onepen::sqlite
