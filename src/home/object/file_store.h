// ObjectStore over a directory (homes.md, 1, `file:`).
//
//   <root>/<stream name>/@log/<first 17 digits>/<20-digit id>     objects of the log, a thousand to a folder, so that no folder grows without bound
//   <root>/<stream name>/@mark/<20-digit id>                      trim marks
//   <root>/<stream name>/@pack/<first id>-<last id>               runs of objects below the mark
//   <root>/<stream name>/@snap/<id>-<put id>/…                    parts and head of a snapshot
//   <root>/<stream name>/@alive/<id>                              signs of life: advice, overwritten, not synced
//   <root>/<stream name>/@tmp/<random>                            scratch; swept by whoever writes, never by readers
// '@' cannot stand in a stream's name, so no name collides with these. docs/formats/log-object.md.
//
// put_if_absent: bytes durable, then the name in one atomic step (link(2)), then the folder synced; only then `created`. A reader syncs the folder
// before it believes a name in @log, @mark or @pack, or a snapshot's head, that this process has not yet seen durable: a name it saw could else vanish with the power, after somebody
// built on it. A folder whose sync failed once is not written again by this process (a second sync would lie), and the create it was for is `unknown`;
// one that could not even be opened for it (moved away for a moment) is synced the next time.
// Reading needs read permission only and writes nothing. Thread-safe.
#pragma once
#include <memory>

#include "base/runtime.h"
#include "home/object/object_store.h"
#include "io/disk.h"

namespace onepen::home {

// `root` is an absolute path; nothing is touched yet. `runtime` and `disk` outlive the store.
std::unique_ptr<ObjectStore> make_file_store(Runtime& runtime, io::Disk& disk, std::string root);

}  // namespace onepen::home
