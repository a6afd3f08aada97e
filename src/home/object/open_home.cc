#include "home/object/open_home.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "home/object/bucket_codec.h"
#include "home/object/file_store.h"
#include "home/object/object_home.h"
#include "home/object/open_bucket.h"
#include "io/mounts.h"

namespace onepen::home {
namespace {

constexpr std::array<std::string_view, 4> kLater{"http", "https", "postgres", "postgresql"};

constexpr std::string_view kHow = "file:///absolute/path, s3://bucket/prefix or az://container/prefix";

tl::unexpected<Error> invalid(std::string message) { return tl::unexpected(Error{Outcome::invalid, std::move(message), {}}); }

// "name:password@" before the path, or a parameter that names a secret. The message never repeats the URL.
bool holds_secret(std::string_view url) {
  auto rest = url.substr(std::min(url.size(), url.find("://") == std::string_view::npos ? std::size_t{0} : url.find("://") + 3));
  auto authority = rest.substr(0, rest.find('/'));
  auto at = authority.find('@');
  if (at != std::string_view::npos && authority.substr(0, at).find(':') != std::string_view::npos) return true;
  constexpr std::array<std::string_view, 5> kSecrets{"password", "secret", "token", "credential", "access_key"};
  for (auto from = url.find('?'); from != std::string_view::npos; from = url.find('&', from + 1)) {
    std::string name(url.substr(from + 1, url.find_first_of("=&", from + 1) - from - 1));
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name == "sig" || std::any_of(kSecrets.begin(), kSecrets.end(), [&](auto word) { return name.find(word) != std::string::npos; })) return true;
  }
  return false;
}

std::string without_slashes_at_end(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Result<> judge(const io::PathFacts& facts) { return judge_filesystem(io::mountinfo_for(facts.real), facts.real); }

// Before the first claim: the folder is there, can be written, and keeps two writers apart.
Result<> place_for_writing(io::Disk& disk, const std::string& path) {
  auto facts = io::look_at(path);
  if (!facts.exists) {
    if (!facts.parent_exists)
      return tl::unexpected(Error{Outcome::not_found, fmt::format("There is no folder above {}. Make it first: mkdir -p {}", path, path), {}});
    if (auto made = disk.make_folders(path); !made)
      return tl::unexpected(Error{Outcome::unauthorised, fmt::format("The home {} does not exist and {}.", path, made.error().message), {}});
    facts = io::look_at(path);
  }
  if (auto ok = judge(facts); !ok) return ok;
  if (!facts.writable)
    return tl::unexpected(Error{Outcome::unauthorised,
                                fmt::format("This process has no permission to write in the home {}. Writing needs it; without it, open "
                                            "read-only.",
                                            path),
                                {}});
  return {};
}

Result<> prepare_writing(Runtime& runtime, io::Disk& disk, const std::string& path) {
  if (auto ok = place_for_writing(disk, path); !ok) return ok;
  return probe_can_fence(runtime, *make_file_store(runtime, disk, path));
}

Result<std::unique_ptr<core::Home>> open_file_home(Runtime& runtime, io::Disk& disk, const std::string& url) {
  auto parsed = path_of_file_url(url);
  if (!parsed) return tl::unexpected(parsed.error());
  const auto& path = *parsed;
  auto facts = io::look_at(path);
  if (facts.exists && !facts.folder)
    return tl::unexpected(Error{Outcome::not_found, fmt::format("There is no home at {}: that is a file, and a home is a folder.", path), {}});
  if (!facts.exists && !facts.parent_exists)
    return tl::unexpected(
        Error{Outcome::not_found, fmt::format("There is no home at {}, and no folder above it. Check the path, or make it: mkdir -p {}", path, path), {}});
  if (auto ok = judge(facts); !ok) return tl::unexpected(ok.error());
  bool closed = facts.exists && !facts.readable;
  if (!facts.exists) {  // or it cannot be seen
    const auto names = disk.list(path, "", 1);
    closed = !names && (names.error().code == EACCES || names.error().code == EPERM);
  }
  if (closed) return tl::unexpected(Error{Outcome::unauthorised, fmt::format("This process has no permission to read the home {}.", path), {}});
  ObjectHomeOptions options;
  options.url = "file://" + path;
  options.prepare_writing = [&runtime, &disk, path] { return prepare_writing(runtime, disk, path); };
  return make_object_home(runtime, make_file_store(runtime, disk, path), std::move(options));
}

Result<std::unique_ptr<core::Home>> open_bucket_home(Runtime& runtime, const std::string& url, const OpenHomeOptions& given) {
  auto bucket = open_bucket(runtime, url, given, process_environment());
  if (!bucket) return tl::unexpected(bucket.error());
  ObjectHomeOptions options;
  options.url = bucket->name;
  options.pace = {true, kBucketPollMin, kBucketPollMax};
  options.prepare_writing = [&runtime, &store = *bucket->store] { return probe_once(runtime, store); };  // the home has the store, and these options
  options.requests = [metrics = bucket->metrics] { return metrics->counts(); };
  return make_object_home(runtime, std::move(bucket->store), std::move(options));
}

// Not a home's URL at all, or one of another version.
Result<> judge_url(const std::string& url) {
  if (holds_secret(url)) return invalid("The URL of the home holds a secret. Secrets never stand in a URL: put it in ONEPEN_CREDENTIAL.");
  const auto colon = url.find(':');
  const auto scheme = url.substr(0, colon);
  const bool is_scheme = colon != std::string::npos && !scheme.empty() && scheme.find('/') == std::string::npos;
  if (!is_scheme)
    return invalid(url.starts_with('/') ? fmt::format("'{}' is a path, not the URL of a home: write file://{}", url, url)
                                        : fmt::format("'{}' is not the URL of a home: write {}.", url, kHow));
  if (scheme == "file" || is_bucket_url(url)) return {};
  if (std::find(kLater.begin(), kLater.end(), scheme) != kLater.end())
    return invalid(fmt::format("Homes at {}:// are not in this version of Onepen yet; {} are.", scheme, kHow));
  return invalid(fmt::format("'{}' is not a scheme of a home. Known: {}.", scheme, kHow));
}

}  // namespace

Result<std::string> path_of_file_url(std::string_view url) {
  constexpr std::string_view kScheme = "file://";
  if (!url.starts_with(kScheme)) return invalid(fmt::format("'{}' is not a file URL: write file:///absolute/path.", url));
  auto rest = url.substr(kScheme.size());
  if (rest.starts_with("localhost/")) rest.remove_prefix(std::string_view("localhost").size());
  if (!rest.starts_with('/')) return invalid(fmt::format("'{}' names no absolute path: write file:///absolute/path (three slashes).", url));
  if (rest.find_first_of("?#") != std::string_view::npos) return invalid(fmt::format("'{}' has parameters; a file home takes none.", url));
  auto path = percent_decoded(rest);
  if (!path) return invalid(fmt::format("'{}' has a '%' that is not followed by two hexadecimal digits.", url));
  for (std::size_t from = 0; from < path->size();) {  // a home that moves with a symbolic link or a parent folder is another home
    auto slash = std::min(path->find('/', from), path->size());
    if (path->substr(from, slash - from) == "..") return invalid(fmt::format("'{}' holds '..': write the path without it.", url));
    from = slash + 1;
  }
  return without_slashes_at_end(std::move(*path));
}

Result<> judge_filesystem(std::string_view mountinfo, std::string_view real_path) {
  auto mount = io::mount_of(mountinfo, real_path);
  if (!mount)
    return invalid(
        fmt::format("Cannot tell which filesystem {} lies on (/proc/self/mountinfo does not say), so not whether it keeps two writers apart.", real_path));
  if (io::local_filesystem(mount->type)) return {};
  if ((mount->type == "nfs" || mount->type == "nfs4") && mount->has_option("lookupcache=none")) return {};
  if (mount->type == "nfs" || mount->type == "nfs4")
    return invalid(
        fmt::format("{} is on a network filesystem that caches lookups: {} is {} from {}, mounted with {}. A cached lookup can hide a newer owner. Mount it "
                    "with lookupcache=none, or choose a local folder.",
                    real_path, mount->point, mount->type, mount->source, mount->options));
  return invalid(
      fmt::format("{} is on a filesystem that is not known to keep two writers apart: {} is {} from {}, mounted with {}; it may cache lookups, which can hide "
                  "a newer owner. Choose a local folder (ext4, xfs, btrfs, ...), not a network or user-space filesystem.",
                  real_path, mount->point, mount->type, mount->source, mount->options));
}

Result<std::unique_ptr<core::Home>> open_home(Runtime& runtime, io::Disk& disk, const std::string& url, const Log&, const OpenHomeOptions& options) {
  if (auto ok = judge_url(url); !ok) return tl::unexpected(ok.error());
  return is_bucket_url(url) ? open_bucket_home(runtime, url, options) : open_file_home(runtime, disk, url);
}

Result<ProbedHome> probe_home(Runtime& runtime, io::Disk& disk, const std::string& url, const OpenHomeOptions& options) {
  if (auto ok = judge_url(url); !ok) return tl::unexpected(ok.error());
  if (!is_bucket_url(url)) {
    const auto path = path_of_file_url(url);
    if (!path) return tl::unexpected(path.error());
    if (auto ok = place_for_writing(disk, *path); !ok) return tl::unexpected(ok.error());
    return ProbedHome{"file://" + *path, run_probe(runtime, *make_file_store(runtime, disk, *path), ProbeDepth::full), {}};
  }
  auto bucket = open_bucket(runtime, url, options, process_environment());
  if (!bucket) return tl::unexpected(bucket.error());
  ProbedHome out{bucket->name, run_probe(runtime, *bucket->store, ProbeDepth::full), {}};
  out.requests = bucket->metrics->counts();
  return out;
}

}  // namespace onepen::home
