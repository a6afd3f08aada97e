// Opens the home a URL names (homes.md): file:///dir now; other schemes are told from unknown ones.
//
// Opening looks and writes nothing: reading an existing home needs read permission only. What writing needs - the folder, write permission, the proof that
// the place can fence - is seen to once, before the first claim through this home, and refused there with the evidence.
#pragma once
#include <memory>
#include <string>

#include "base/log.h"
#include "base/runtime.h"
#include "core/home.h"
#include "io/disk.h"

namespace onepen::home {

// `runtime` and `disk` outlive the home. Errors: invalid (not a URL of a home, secrets in it, a place that cannot fence), not_found (nothing there and its
// parent folder is missing too; a missing folder whose parent exists is an empty home, made by the first claim), unauthorised (no permission to read).
Result<std::unique_ptr<core::Home>> open_home(Runtime& runtime, io::Disk& disk, const std::string& url, const Log& log = {});

// The absolute path of a file: URL. Errors: invalid, with a sentence that says how to write it.
Result<std::string> path_of_file_url(std::string_view url);

// Whether a filesystem keeps two writers apart, judged by its mount: local ones by name; network ones only when their options show that lookups are not
// cached. Pure. Errors: invalid with the evidence.
Result<> judge_filesystem(std::string_view mountinfo, std::string_view real_path);

}  // namespace onepen::home
