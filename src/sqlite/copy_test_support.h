// For tests of the copy: a database that plain SQLite writes, whose commits are taken from its WAL and encoded as the records of a stream; and a stream
// in memory that can be read.
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "sqlite/apply.h"
#include "sqlite/copy_file.h"
#include "sqlite/initial_page.h"
#include "sqlite/plain_sqlite.h"

namespace onepen::sqlite::testing {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "onepen-copy-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data()) != nullptr ? pattern : "";
    EXPECT_FALSE(path_.empty());
  }
  ~TempFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return std::move(out).str();
}
inline void spill(const std::string& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

inline void run_sql(sqlite3* db, const std::string& sql) {
  char* message = nullptr;
  const int code = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &message);
  EXPECT_EQ(code, SQLITE_OK) << sql.substr(0, 200) << ": " << (message != nullptr ? message : "");
  sqlite3_free(message);
}

template <class T>
std::string told(const Result<T>& result) {
  return result ? "ok" : std::string(word(result.error().outcome)) + ": " + result.error().message;
}

inline const Incarnation kIncarnation{1, 2};
inline const ClaimId kClaim{3, 4};

struct SourceCommit {
  CommitState state;
  std::vector<PageHash> hashes;
  std::size_t records_end = 0;  // records()[0, records_end) hold it and everything before
};

// Deterministic: the same SQL gives the same records.
class PlainSource {
 public:
  PlainSource(const std::string& folder, std::uint32_t page_size) : path_(folder + "/source"), page_size_(page_size), table_(page_size) {
    const Bytes first = initial_page(page_size);
    spill(path_, as_text(first));
    add_commit(1, {{1, first}});
    auto db = open_plain(path_, SQLITE_OPEN_READWRITE);
    EXPECT_TRUE(db) << told(db);
    db_ = std::move(*db);
    run_sql(db_.get(), "PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=OFF");
  }

  void exec(const std::string& sql) {
    run_sql(db_.get(), sql);
    collect();
  }
  // A record that is no commit: a claim of the next epoch.
  void claim() {
    ++epoch_;
    core::Record record = blank(core::RecordKind::claim);
    records_.push_back(std::move(record));
  }
  void control() { records_.push_back(blank(core::RecordKind::control)); }
  // The parts of a commit that never came to its end: those of the commit `sql` would make, without the last.
  void push(core::Record record) {
    record.next = next_offset();
    records_.push_back(std::move(record));
  }

  const std::vector<core::Record>& records() const { return records_; }
  const std::vector<SourceCommit>& commits() const { return commits_; }
  const CommitState& state() const { return commits_.back().state; }
  const PageTable& table() const { return table_; }
  sqlite3* db() { return db_.get(); }
  // The database's bytes, everything folded in, without the connection.
  std::string bytes() {
    run_sql(db_.get(), "PRAGMA wal_checkpoint(TRUNCATE)");
    db_.reset();
    return slurp(path_);
  }

 private:
  Offset next_offset() {
    char text[24];
    std::snprintf(text, sizeof text, "%020llu", static_cast<unsigned long long>(++offset_));
    return Offset{text};
  }
  core::Record blank(core::RecordKind kind) {
    core::Record record;
    record.kind = kind;
    record.incarnation = kIncarnation;
    record.epoch = Epoch{epoch_};
    record.claim_id = kClaim;
    record.next = next_offset();
    return record;
  }
  void collect() {
    auto wal = read_wal(*disk_, path_ + "-wal");
    ASSERT_TRUE(wal) << told(wal);
    auto file = open_file(path_ + "-wal", OpenMode::read);
    ASSERT_TRUE(file) << told(file);
    std::map<std::uint32_t, Bytes> pages;
    for (; seen_ < wal->frames.size(); ++seen_) {
      const WalFrame& frame = wal->frames[seen_];
      Bytes image(page_size_);
      ASSERT_TRUE(read_at(file->fd(), frame.image_at, image, path_));
      pages[frame.page_number] = std::move(image);
      if (frame.page_count_after != 0) {
        add_commit(frame.page_count_after, pages);
        pages.clear();
      }
    }
  }
  void add_commit(std::uint32_t page_count, const std::map<std::uint32_t, Bytes>& pages) {
    SourceCommit commit;
    for (const auto& [number, image] : pages) {
      if (number <= page_count) commit.hashes.emplace_back(number, page_hash_of(number, image));
    }
    const std::uint64_t sum = table_.sum_after(page_count, commit.hashes, page_size_);
    const wire::CommitHead head{commits_.size() + 1, page_size_, page_count, commits_.empty() ? wire::RunningSum{} : table_.running()};
    wire::PartEncoder encoder(codec_, head, [&](Bytes part) -> Result<> {
      core::Record record = blank(core::RecordKind::data);
      record.payload = std::move(part);
      records_.push_back(std::move(record));
      return {};
    });
    for (const auto& [number, image] : pages) {
      if (number > page_count) continue;
      const auto before = images_.find(number);
      auto added = encoder.add(number, image, before == images_.end() || number > table_.page_count() ? ByteView{} : ByteView(before->second));
      ASSERT_TRUE(added) << told(added);
    }
    ASSERT_TRUE(encoder.finish(sum));
    table_.commit(page_count, commit.hashes, page_size_);
    for (const auto& [number, image] : pages) images_[number] = image;
    commit.state = {records_.back().next, kIncarnation, commits_.size() + 1, table_.sum(), page_count, page_size_};
    commit.records_end = records_.size();
    commits_.push_back(std::move(commit));
  }

  std::unique_ptr<io::Disk> disk_ = io::make_posix_disk();
  std::string path_;
  std::uint32_t page_size_;
  PageTable table_;
  PlainConnection db_;
  wire::PageCodec codec_;
  std::map<std::uint32_t, Bytes> images_;
  std::vector<core::Record> records_;
  std::vector<SourceCommit> commits_;
  std::size_t seen_ = 0;
  std::uint64_t offset_ = 0, epoch_ = 1;
};

// Reads only; a few records at a time.
class MemoryStream final : public core::Stream {
 public:
  std::vector<core::Record> records;
  std::optional<core::Refusal> refuse_once;
  std::size_t at_a_time = 7;
  Offset oldest;                                      // records up to it were trimmed
  bool tells_stat = false;
  Incarnation incarnation = kIncarnation;
  std::vector<core::SnapshotInfo> kept;               // newest first
  std::optional<std::vector<core::HistoryEvent>> history;  // none: this home keeps none
  std::map<std::string, std::vector<Bytes>> parts;    // of each

  const StreamName& name() const override { return name_; }
  core::Answer<core::ReadResult> read(const Offset& from, const core::ReadLimit&) override {
    if (refuse_once) {
      auto refusal = *refuse_once;
      refuse_once.reset();
      return tl::unexpected(refusal);
    }
    if (from < oldest) return tl::unexpected(core::Refusal{Outcome::gone, "what was before is trimmed"});
    core::ReadResult out;
    out.next = from;
    for (const core::Record& record : records) {
      if (record.next <= from) continue;
      if (out.records.size() == at_a_time) return out;
      out.records.push_back(record);
      out.next = record.next;
    }
    out.up_to_date = true;
    return out;
  }
  core::Answer<std::optional<core::SnapshotInfo>> newest_snapshot() override {
    return kept.empty() ? std::optional<core::SnapshotInfo>{} : std::optional(kept.front());
  }
  core::Answer<std::vector<core::SnapshotInfo>> snapshots() override { return kept; }
  core::Answer<Bytes> snapshot_part(const core::SnapshotInfo& info, std::uint32_t part) override { return parts.at(info.id).at(part); }
  core::Answer<core::StreamStat> stat() override {
    if (!tells_stat) return no();
    core::StreamStat stat;
    stat.incarnation = incarnation;
    if (!records.empty()) stat.tail = records.back().next;
    return stat;
  }
  core::Answer<core::Usage> usage() override {
    core::Usage usage;
    usage.oldest = oldest;
    return usage;
  }
  core::Answer<std::vector<core::HistoryEvent>> events() override {
    if (!history) return not_kept();
    return *history;
  }
  core::Answer<core::ClaimReceipt> claim(const core::ClaimRequest&) override { return no(); }
  core::Answer<core::AppendReceipt> append(const core::AppendBatch&) override { return no(); }
  core::Answer<bool> wait(const Offset&, Instant) override { return no(); }
  core::Answer<bool> beat(const std::string&, ByteView) override { return no(); }
  core::Answer<std::optional<Bytes>> pulse(const std::string&) override { return no(); }

 private:
  static tl::unexpected<core::Refusal> no() { return tl::unexpected(core::Refusal{Outcome::invalid, "this stream is only read"}); }
  StreamName name_ = *StreamName::parse("app");
};

}  // namespace onepen::sqlite::testing
