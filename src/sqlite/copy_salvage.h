// Moving a copy that is not trusted out of the way: into <cache root>/salvage/<name>/<time>-<kind>/ with a manifest.json that says why (docs/formats/
// copy-state.md). Files are renamed, never deleted. Thread-safety: none; the caller holds the copy's lock.
#pragma once
#include <optional>
#include <string>

#include "base/runtime.h"
#include "io/disk.h"
#include "sqlite/copy_state.h"
#include "wire/commit_frame.h"

namespace onepen::sqlite {

struct FoundDatabase {
  wire::RunningSum sum;
  std::uint32_t page_size = 0;
  std::uint64_t bytes = 0;
  std::uint64_t inode = 0;
};

struct Salvage {
  std::string kind;  // "diverged" | "rewound"
  std::string why;   // a whole sentence
  CopyPlace place;
  std::string copy_folder;
  std::optional<CopyRecord> expected{};
  std::optional<FoundDatabase> found{};
};

// 'a/b' as one folder name: 'a%2Fb'. Names have no '%' of their own (StreamName).
std::string folder_name(const StreamName& name);

// Returns the folder it is in now. A kill in the middle leaves a copy without its state file, which is not trusted either: the rest follows at the next
// acquire. Errors: unavailable.
Result<std::string> move_aside(Runtime& runtime, io::Disk& disk, const Salvage& salvage);

}  // namespace onepen::sqlite
