// For tests of snapshots and of the caretaker: a pin over page images in memory, and the snapshots of a home in memory, with the writer that fills it and
// sessions that read it. Thread-safe where the ports are.
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>

#include "sqlite/page_sum.h"
#include "sqlite/pin.h"

namespace onepen::sqlite::testing {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "onepen-snapshot-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data()) != nullptr ? pattern : "";
    EXPECT_FALSE(path_.empty());
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string whole_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const std::string& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
}
template <class T>
std::string said(const Result<T>& result) {
  return result ? "ok" : std::string(word(result.error().outcome)) + ": " + result.error().message;
}

inline Bytes page_of_noise(std::uint32_t page_size, std::uint32_t seed) {
  std::mt19937_64 random(seed);
  Bytes out(page_size);
  for (std::size_t at = 0; at < out.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    std::memcpy(out.data() + at, &word, sizeof word);
  }
  return out;
}
// Half of it compresses.
inline Bytes page_of_text(std::uint32_t page_size, std::uint32_t seed) {
  Bytes out = page_of_noise(page_size, seed);
  for (std::size_t i = 0; i < out.size() / 2; ++i) out[i] = static_cast<std::byte>('a' + i % 7);
  return out;
}

class MemoryPin final : public PinnedCopy {
 public:
  // Pages that `images` does not name are zeros.
  MemoryPin(std::uint32_t page_size, std::uint32_t page_count, std::map<std::uint32_t, Bytes> images) : images_(std::move(images)) {
    PageTable table(page_size);
    table.resize(page_count);
    for (const auto& [number, image] : images_) table.set(number, page_hash_of(number, image));
    state_ = {Offset{"00000000000000000007"}, Incarnation{1, 2}, 42, table.sum(), page_count, page_size};
  }
  const CommitState& state() const override { return state_; }
  Result<> read(std::uint32_t page_number, std::span<std::byte> image) override {
    if (on_read) on_read(page_number);
    const auto at = images_.find(page_number);
    if (at == images_.end()) std::fill(image.begin(), image.end(), std::byte{0});
    else std::copy(at->second.begin(), at->second.end(), image.begin());
    if (page_number == damaged_page) image[image.size() / 2] ^= std::byte{1};
    if (page_number == unreadable_page) return tl::unexpected(Error{Outcome::unavailable, "cannot read the page", std::nullopt});
    return {};
  }
  bool overdue() const override { return overdue_now; }

  std::function<void(std::uint32_t)> on_read;
  std::uint32_t damaged_page = 0, unreadable_page = 0;
  std::atomic<bool> overdue_now{false};

 private:
  std::map<std::uint32_t, Bytes> images_;
  CommitState state_;
};

// What a home keeps of the snapshots of one stream.
struct KeptSnapshots {
  struct Kept {
    core::SnapshotInfo info;
    std::vector<Bytes> parts;
  };
  std::mutex mutex;
  std::vector<Kept> kept;
  std::uint64_t begun = 0, fetched = 0;
  std::set<std::uint32_t> absent;              // parts that cannot be found
  std::optional<core::Refusal> refuse_part{};  // every fetch from now on
  std::optional<core::Refusal> refuse_add{};   // every add from now on
  std::function<void(std::uint32_t)> on_part;  // before a part is handed out, without the lock
};

class KeptWriter final : public core::SnapshotWriter {
 public:
  KeptWriter(std::shared_ptr<KeptSnapshots> home, Offset at, std::uint64_t log_bytes = 0) : home_(std::move(home)), at_(std::move(at)), log_bytes_(log_bytes) {}
  core::Answer<bool> add(ByteView part) override {
    const std::lock_guard lock(home_->mutex);
    if (home_->refuse_add) return tl::unexpected(*home_->refuse_add);
    parts_.push_back(to_bytes(part));
    return true;
  }
  core::Answer<core::SnapshotInfo> finish(const Bytes& about) override {
    const std::lock_guard lock(home_->mutex);
    core::SnapshotInfo info;
    info.id = "snap-" + std::to_string(++home_->begun);
    info.offset = at_;
    info.incarnation = Incarnation{1, 2};
    info.epoch = Epoch{1};
    for (const Bytes& part : parts_) info.bytes += part.size();
    info.parts = static_cast<std::uint32_t>(parts_.size());
    info.log_bytes = log_bytes_;
    info.about = about;
    home_->kept.push_back({info, std::move(parts_)});
    return info;
  }

 private:
  std::shared_ptr<KeptSnapshots> home_;
  Offset at_;
  std::uint64_t log_bytes_;
  std::vector<Bytes> parts_;
};

// A session that knows snapshots and nothing else; a test of more derives from it.
class SnapshotStream : public core::Stream {
 public:
  explicit SnapshotStream(std::shared_ptr<KeptSnapshots> home) : home_(std::move(home)) {}
  const StreamName& name() const override { return name_; }
  core::Answer<std::optional<core::SnapshotInfo>> newest_snapshot() override {
    const std::lock_guard lock(home_->mutex);
    if (home_->kept.empty()) return std::optional<core::SnapshotInfo>{};
    return std::optional(home_->kept.back().info);
  }
  core::Answer<Bytes> snapshot_part(const core::SnapshotInfo& info, std::uint32_t part) override {
    if (home_->on_part) home_->on_part(part);
    const std::lock_guard lock(home_->mutex);
    ++home_->fetched;
    if (home_->refuse_part) return tl::unexpected(*home_->refuse_part);
    for (const auto& kept : home_->kept) {
      if (kept.info.id == info.id && part < kept.parts.size() && !home_->absent.contains(part)) return kept.parts[part];
    }
    return tl::unexpected(core::Refusal{Outcome::not_found, "there is no such part", {}});
  }
  core::Answer<std::unique_ptr<core::SnapshotWriter>> begin_snapshot(const core::OwnerToken&, const Offset& at) override {
    return std::make_unique<KeptWriter>(home_, at);
  }
  core::Answer<core::StreamStat> stat() override { return not_kept(); }
  core::Answer<core::ClaimReceipt> claim(const core::ClaimRequest&) override { return not_kept(); }
  core::Answer<core::AppendReceipt> append(const core::AppendBatch&) override { return not_kept(); }
  core::Answer<core::ReadResult> read(const Offset&, const core::ReadLimit&) override { return not_kept(); }
  core::Answer<bool> wait(const Offset&, Instant) override { return not_kept(); }
  core::Answer<bool> beat(const std::string&, ByteView) override { return not_kept(); }
  core::Answer<std::optional<Bytes>> pulse(const std::string&) override { return not_kept(); }

 protected:
  std::shared_ptr<KeptSnapshots> home_;

 private:
  StreamName name_ = *StreamName::parse("app");
};

}  // namespace onepen::sqlite::testing
