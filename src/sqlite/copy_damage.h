// A WAL that the disk damaged, and what may lie behind the damage.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sqlite/copy_find.h"

namespace onepen::sqlite {

// SQLite takes a WAL up to its first frame that is not whole, and drops the rest. When that is before the acknowledged place, the disk lost something, and
// commits that nobody has sent may lie behind it.
// path: of that WAL, of which `wal` is what could be read. None: nothing unsent lies there. Else a copy that does not fit, and why. Reads only the headers of
// frames, and only when the WAL ends too early. Errors: unavailable (disk).
Result<std::optional<FoundCopy>> look_behind_damage(io::Disk& disk, const std::string& path, const WalContent& wal, const CopyRecord& record,
                                                    const std::vector<PagesFile::Found>& tables);

// How many commits lie behind the last one that can be read: SQLite drops them, and so they are gone. What a power loss leaves of commits that nobody had
// synced, or damage among unsent commits. Reads only the headers of frames. Errors: unavailable (disk).
Result<std::uint64_t> commits_behind_end(io::Disk& disk, const std::string& path, const WalContent& wal);

}  // namespace onepen::sqlite
