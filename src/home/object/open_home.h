// Opens the home a URL names (homes.md): file:///dir, s3://bucket/prefix; other schemes are told from unknown ones.
//
// Opening looks and writes nothing: reading an existing home needs read permission only. What writing needs - the folder, write permission, the proof that
// the place can fence - is seen to once, before the first claim through this home, and refused there with the evidence. Opening a bucket sends no request:
// what is wrong with it is told by the first one.
#pragma once
#include <memory>
#include <string>

#include "base/log.h"
#include "base/runtime.h"
#include "core/home.h"
#include "home/object/probe.h"
#include "io/disk.h"

namespace onepen::home {

struct OpenHomeOptions {
  std::string credential{};                            // of a bucket; empty: as bucket_credentials.h finds them
  std::string ca_file{};                               // certificates to trust; empty: as the environment says, else the system's
  std::chrono::milliseconds request_timeout{10'000};   // without a byte from a bucket
};

// `runtime` and `disk` outlive the home. Errors: invalid (not a URL of a home, secrets in it, a place that cannot fence), not_found (nothing there and its
// parent folder is missing too; a missing folder whose parent exists is an empty home, made by the first claim), unauthorised (no permission to read).
Result<std::unique_ptr<core::Home>> open_home(Runtime& runtime, io::Disk& disk, const std::string& url, const Log& log = {},
                                              const OpenHomeOptions& options = {});

// What the probe saw at the place a URL names, on demand (`onepen probe`); it makes a missing folder and leaves nothing else behind. Errors: as open_home.
struct ProbedHome {
  std::string name;  // of the home
  ProbeReport report;
  core::RequestCounts requests;  // to a bucket
};
Result<ProbedHome> probe_home(Runtime& runtime, io::Disk& disk, const std::string& url, const OpenHomeOptions& options = {});

// The absolute path of a file: URL. Errors: invalid, with a sentence that says how to write it.
Result<std::string> path_of_file_url(std::string_view url);

// Whether a filesystem keeps two writers apart, judged by its mount: local ones by name; network ones only when their options show that lookups are not
// cached. Pure. Errors: invalid with the evidence.
Result<> judge_filesystem(std::string_view mountinfo, std::string_view real_path);

}  // namespace onepen::home
