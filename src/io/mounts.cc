#include "io/mounts.h"

#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace onepen::io {
namespace {

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> out;
  while (!line.empty()) {
    auto space = line.find(' ');
    out.push_back(line.substr(0, space));
    line = space == std::string_view::npos ? std::string_view{} : line.substr(space + 1);
  }
  return out;
}

std::string unescape(std::string_view text) {  // \040 and the like
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto octal = [&](std::size_t k) { return i + k < text.size() && text[i + k] >= '0' && text[i + k] <= '7'; };
    if (text[i] == '\\' && octal(1) && octal(2) && octal(3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool lies_under(std::string_view path, std::string_view point) {
  if (point == "/") return path.starts_with('/');
  return path.starts_with(point) && (path.size() == point.size() || path[point.size()] == '/');
}

}  // namespace

bool Mount::has_option(std::string_view option) const {
  std::string_view rest = options;
  while (!rest.empty()) {
    auto comma = rest.find(',');
    if (rest.substr(0, comma) == option) return true;
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
  return false;
}

// "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue": optional fields end with "-".
std::optional<Mount> mount_of(std::string_view mountinfo, std::string_view path) {
  std::optional<Mount> best;
  while (!mountinfo.empty()) {
    auto end = mountinfo.find('\n');
    auto fields = fields_of(mountinfo.substr(0, end));
    mountinfo = end == std::string_view::npos ? std::string_view{} : mountinfo.substr(end + 1);
    std::size_t dash = 6;
    while (dash < fields.size() && fields[dash] != "-") ++dash;
    if (dash + 3 >= fields.size()) continue;
    auto point = unescape(fields[4]);
    if (!point.starts_with('/') || !lies_under(path, point) || (best && point.size() < best->point.size())) continue;
    best = Mount{point, std::string(fields[dash + 1]), unescape(fields[dash + 2]), std::string(fields[5]) + "," + std::string(fields[dash + 3])};
  }
  return best;
}

bool local_filesystem(std::string_view type) {
  static constexpr std::array<std::string_view, 14> kLocal{"ext2",     "ext3", "ext4",   "xfs",      "btrfs", "f2fs",  "zfs",
                                                           "bcachefs", "jfs",  "nilfs2", "reiserfs", "tmpfs", "ramfs", "overlay"};
  return std::find(kLocal.begin(), kLocal.end(), type) != kLocal.end();
}

std::string existing_above(const std::string& path) {
  for (std::string at = path; at.size() > 1; at.resize(at.rfind('/'))) {
    if (char* real = ::realpath(at.c_str(), nullptr)) {
      std::string out = real;
      std::free(real);
      return out;
    }
    if (at.rfind('/') == std::string::npos) break;
  }
  return "/";
}

std::string_view local_filesystem_by_magic(std::int64_t magic) {
  // linux/magic.h and statfs(2); the kernel widens the 32-bit magics differently by architecture.
  static constexpr std::array<std::pair<std::uint32_t, std::string_view>, 8> kKnown{{{0xef53, "ext4"},
                                                                                     {0x58465342, "xfs"},
                                                                                     {0x9123683e, "btrfs"},
                                                                                     {0xf2f52010, "f2fs"},
                                                                                     {0x2fc12fc1, "zfs"},
                                                                                     {0x01021994, "tmpfs"},
                                                                                     {0x858458f6, "ramfs"},
                                                                                     {0x794c7630, "overlay"}}};
  for (const auto& [known, name] : kKnown)
    if (known == static_cast<std::uint32_t>(magic)) return name;
  return {};
}

namespace {
std::string read_mountinfo() {
  std::string out;
  std::FILE* file = std::fopen("/proc/self/mountinfo", "re");
  if (file == nullptr) return out;
  std::array<char, 8192> buffer;
  while (auto n = std::fread(buffer.data(), 1, buffer.size(), file)) out.append(buffer.data(), n);
  std::fclose(file);
  return out;
}
}  // namespace

std::string mountinfo_for(const std::string& real_path) {
  std::string text = read_mountinfo();
  if (mount_of(text, real_path)) return text;
  struct statfs info{};
  if (::statfs(real_path.c_str(), &info) != 0) return text;
  const auto name = local_filesystem_by_magic(static_cast<std::int64_t>(info.f_type));
  if (!name.empty()) text.append("0 0 0:0 / / rw - ").append(name).append(" none rw\n");
  return text;
}

PathFacts look_at(const std::string& path) {
  PathFacts facts;
  struct stat st{};
  facts.exists = ::stat(path.c_str(), &st) == 0;
  facts.folder = facts.exists && S_ISDIR(st.st_mode);
  auto parent = path.substr(0, path.find_last_of('/'));
  if (parent.empty()) parent = "/";
  facts.parent_exists = ::stat(parent.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
  const auto& known = facts.exists ? path : parent;
  facts.readable = facts.exists && ::eaccess(path.c_str(), R_OK | X_OK) == 0;
  facts.writable = ::eaccess(known.c_str(), W_OK | X_OK) == 0;
  if (char* real = ::realpath(known.c_str(), nullptr)) {
    facts.real = real;
    std::free(real);
  }
  return facts;
}

}  // namespace onepen::io
