// A disk of files in memory for fuzz targets: reads and writes as the port says, syncs and locks that always succeed. One thread.
#pragma once
#include <cerrno>
#include <map>
#include <memory>
#include <string>

#include "io/disk.h"

namespace onepen::fuzz {

class MemoryDisk final : public io::Disk {
 public:
  void put(const std::string& path, Bytes bytes) { files_[path] = std::make_shared<Bytes>(std::move(bytes)); }

  io::DiskResult<Bytes> read(const std::string& path, std::uint64_t from, std::uint64_t most) override {
    const auto file = files_.find(path);
    if (file == files_.end()) return absent(path);
    const Bytes& all = *file->second;
    const auto begin = std::min<std::uint64_t>(from, all.size()), end = begin + std::min<std::uint64_t>(most, all.size() - begin);
    return Bytes(all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end));
  }
  io::DiskResult<std::uint64_t> size(const std::string& path) override {
    const auto file = files_.find(path);
    if (file == files_.end()) return absent(path);
    return file->second->size();
  }
  io::DiskResult<> create(const std::string& path, ByteView bytes, bool) override {
    if (files_.contains(path)) return tl::unexpected(io::DiskError{EEXIST, path + " is there"});
    put(path, to_bytes(bytes));
    return {};
  }
  io::DiskResult<> append(const std::string& path, ByteView bytes, bool) override {
    return write_at(path, files_.contains(path) ? files_[path]->size() : 0, bytes, true);
  }
  io::DiskResult<> write_at(const std::string& path, std::uint64_t from, ByteView bytes, bool) override {
    if (!files_.contains(path)) put(path, {});
    return Open(files_[path]).write_at(from, bytes);
  }
  io::DiskResult<std::unique_ptr<io::DiskFile>> open(const std::string& path, io::OpenMode mode) override {
    if (!files_.contains(path)) {
      if (mode != io::OpenMode::create) return absent(path);
      put(path, {});
    }
    return std::make_unique<Open>(files_[path]);
  }
  io::DiskResult<io::FileIdentity> identity(const std::string& path) override {
    if (!files_.contains(path)) return absent(path);
    return io::FileIdentity{1, 1};
  }
  io::DiskResult<> link(const std::string& from, const std::string& to) override {
    if (!files_.contains(from)) return absent(from);
    if (files_.contains(to)) return tl::unexpected(io::DiskError{EEXIST, to + " is there"});
    files_[to] = files_[from];
    return {};
  }
  io::DiskResult<> rename(const std::string& from, const std::string& to) override {
    if (!files_.contains(from)) return absent(from);
    files_[to] = files_[from];
    files_.erase(from);
    return {};
  }
  io::DiskResult<> remove(const std::string& path) override { return files_.erase(path) != 0 ? io::DiskResult<>{} : absent(path); }
  io::DiskResult<> sync_folder(const std::string&) override { return {}; }
  io::DiskResult<> make_folders(const std::string&) override { return {}; }
  io::DiskResult<std::vector<std::string>> list(const std::string& path, const std::string& after, std::size_t limit) override {
    std::vector<std::string> names;  // of files and of folders that have some
    bool there = false;
    for (const auto& [name, bytes] : files_) {
      if (!name.starts_with(path + "/")) continue;
      there = true;
      auto leaf = name.substr(path.size() + 1);
      leaf = leaf.substr(0, leaf.find('/'));
      if (leaf > after && names.size() < limit && (names.empty() || names.back() != leaf)) names.push_back(leaf);
    }
    if (!there) return absent(path);
    return names;
  }

 private:
  class Open final : public io::DiskFile {
   public:
    explicit Open(std::shared_ptr<Bytes> bytes) : bytes_(std::move(bytes)) {}
    io::DiskResult<std::size_t> read_at(std::uint64_t from, std::span<std::byte> out) override {
      if (from >= bytes_->size()) return std::size_t{0};
      const auto size = std::min<std::size_t>(out.size(), bytes_->size() - static_cast<std::size_t>(from));
      std::copy_n(bytes_->begin() + static_cast<std::ptrdiff_t>(from), size, out.begin());
      return size;
    }
    io::DiskResult<> write_at(std::uint64_t from, ByteView bytes) override {
      if (from + bytes.size() > kMost) return tl::unexpected(io::DiskError{EFBIG, "too large for a disk in memory"});
      bytes_->resize(std::max<std::size_t>(bytes_->size(), static_cast<std::size_t>(from) + bytes.size()));
      std::copy(bytes.begin(), bytes.end(), bytes_->begin() + static_cast<std::ptrdiff_t>(from));
      return {};
    }
    io::DiskResult<std::uint64_t> size() override { return bytes_->size(); }
    io::DiskResult<> cut(std::uint64_t size) override {
      if (size > kMost) return tl::unexpected(io::DiskError{EFBIG, "too large for a disk in memory"});
      bytes_->resize(static_cast<std::size_t>(size));
      return {};
    }
    io::DiskResult<> sync() override { return {}; }
    io::DiskResult<bool> lock(bool) override { return true; }
    std::int64_t foreign_lock(std::uint64_t, std::uint64_t) override { return 0; }

   private:
    static constexpr std::uint64_t kMost = 64u << 20;
    std::shared_ptr<Bytes> bytes_;
  };

  static tl::unexpected<io::DiskError> absent(const std::string& path) { return tl::unexpected(io::DiskError{ENOENT, "there is no " + path}); }
  std::map<std::string, std::shared_ptr<Bytes>> files_;
};

}  // namespace onepen::fuzz
