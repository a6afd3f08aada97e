// A log that grows, and a seat in a process that owns it: what the tests of the caretaker look after.
#pragma once
#include <gtest/gtest.h>

#include <set>

#include "sqlite/caretaker.h"
#include "sqlite/snapshot_test_support.h"
#include "tests/support/manual_runtime.h"

namespace onepen::sqlite::testing {

inline Offset offset_of(std::uint64_t n) {
  char text[24];
  std::snprintf(text, sizeof text, "%020llu", static_cast<unsigned long long>(n));
  return Offset{text};
}

// A stream whose log is a number of bytes, and its snapshots. It keeps what a home would keep: what is trimmed is gone, and so are older snapshots.
struct GrowingLog {
  std::shared_ptr<KeptSnapshots> snapshots = std::make_shared<KeptSnapshots>();
  std::mutex mutex;
  std::uint64_t commits = 0, log_bytes = 0, trimmed_bytes = 0;
  std::map<Offset, std::uint64_t> bytes_at;  // offset -> log_bytes there
  std::vector<core::TendRequest> tended;
  int tend_calls_left = 0;  // answered with `more`
  std::optional<core::Refusal> refuse;  // stat and tend
  std::uint64_t stats = 0;
  bool owned = true;

  std::uint64_t kept() {
    const std::lock_guard lock(mutex);
    return log_bytes - trimmed_bytes;
  }
};

class GrowingStream final : public SnapshotStream {
 public:
  explicit GrowingStream(GrowingLog& log) : SnapshotStream(log.snapshots), log_(log) {}
  core::Answer<core::StreamStat> stat() override {
    const std::lock_guard lock(log_.mutex);
    ++log_.stats;
    if (log_.refuse) return tl::unexpected(*log_.refuse);
    core::StreamStat stat;
    stat.log_bytes = log_.log_bytes;
    return stat;
  }
  core::Answer<core::ReadResult> read(const Offset& from, const core::ReadLimit&) override { return core::ReadResult{{}, from, true}; }
  core::Answer<std::unique_ptr<core::SnapshotWriter>> begin_snapshot(const core::OwnerToken& token, const Offset& at) override {
    const std::lock_guard lock(log_.mutex);
    EXPECT_EQ(token.epoch, Epoch{7});
    if (!log_.bytes_at.contains(at)) return tl::unexpected(core::Refusal{Outcome::invalid, "no such position", {}});
    return std::make_unique<KeptWriter>(home_, at, log_.bytes_at[at]);
  }
  core::Answer<core::Tended> tend(const core::TendRequest& request) override {
    const std::lock_guard lock(log_.mutex);
    if (log_.refuse) return tl::unexpected(*log_.refuse);
    log_.tended.push_back(request);
    if (request.trim_to) {
      log_.trimmed_bytes = std::max(log_.trimmed_bytes, log_.bytes_at.at(*request.trim_to));
      const std::lock_guard kept(home_->mutex);
      std::erase_if(home_->kept, [&](const auto& snapshot) { return snapshot.info.offset < *request.trim_to; });
    }
    return core::Tended{.more = log_.tend_calls_left-- > 0};
  }

 private:
  GrowingLog& log_;
};

class Seat final : public CaretakerSeat {
 public:
  explicit Seat(GrowingLog& log) : log_(log) {}
  std::unique_ptr<core::Stream> session() override {
    ++sessions;
    return std::make_unique<GrowingStream>(log_);
  }
  std::optional<core::OwnerToken> token() override {
    const std::lock_guard lock(log_.mutex);
    if (!log_.owned) return std::nullopt;
    return core::OwnerToken{{1, 2}, Epoch{7}, {3, 4}};
  }
  std::uint64_t database_bytes() override { return std::uint64_t{pages} * 65536; }
  Offset position() override {
    const std::lock_guard lock(log_.mutex);
    return log_.commits == 0 ? Offset{} : offset_of(log_.commits);
  }
  Result<std::unique_ptr<PinnedCopy>> pin() override {
    if (refuse_pin) return tl::unexpected(*refuse_pin);
    std::map<std::uint32_t, Bytes> images;
    for (std::uint32_t n = 1; n <= std::min(pages, 3u); ++n) images[n] = page_of_noise(65536, n);
    auto pin = std::make_unique<Pin>(65536, pages, std::move(images));
    pin->pin.damaged_page = damaged_page;
    pin->pin.on_read = on_read;
    pin->at = pin->pin.state();
    pin->at.offset = position();
    pin->at.ordinal = log_.commits;
    ++pins;
    return pin;
  }
  Result<Offset> append_record(core::RecordKind kind, Bytes payload) override {
    EXPECT_EQ(kind, core::RecordKind::snapshot);
    const std::lock_guard lock(log_.mutex);
    if (refuse_append) return tl::unexpected(*refuse_append);
    records.emplace_back(as_text(payload));
    log_.log_bytes += payload.size();
    return offset_of(log_.commits);
  }

  std::uint32_t pages = 10, damaged_page = 0;
  std::function<void(std::uint32_t)> on_read;
  std::optional<Error> refuse_pin, refuse_append;
  std::vector<std::string> records;  // JSON
  int sessions = 0, pins = 0;

 private:
  struct Pin final : PinnedCopy {
    Pin(std::uint32_t page_size, std::uint32_t count, std::map<std::uint32_t, Bytes> images) : pin(page_size, count, std::move(images)) {}
    const CommitState& state() const override { return at; }
    Result<> read(std::uint32_t page_number, std::span<std::byte> image) override { return pin.read(page_number, image); }
    bool overdue() const override { return pin.overdue(); }
    MemoryPin pin;
    CommitState at;
  };
  GrowingLog& log_;
};

class Caretaking : public ::testing::Test {
 protected:
  void start(CaretakerOptions options = {}) {
    caretaker = std::make_unique<Caretaker>(runtime, seat, options, Log([this](LogLevel, std::string_view line) {
                                              const std::lock_guard lock(lines_mutex);
                                              lines.emplace_back(line);
                                            }));
    settle();
  }
  // Time passes only when everybody waits: the caretaker has done what there was to do.
  void settle() { runtime.sleep_until(runtime.now() + std::chrono::milliseconds(1)); }
  void commit(std::uint64_t bytes) {
    {
      const std::lock_guard lock(log.mutex);
      log.log_bytes += bytes;
      log.bytes_at[offset_of(++log.commits)] = log.log_bytes;
    }
    caretaker->committed(bytes);
    settle();
  }
  std::size_t kept_snapshots() {
    const std::lock_guard lock(log.snapshots->mutex);
    return log.snapshots->kept.size();
  }
  std::uint64_t snapshots_made() {
    const std::lock_guard lock(log.snapshots->mutex);
    return log.snapshots->begun;
  }

  onepen::testing::ManualRuntime runtime;
  GrowingLog log;
  Seat seat{log};
  std::mutex lines_mutex;
  std::vector<std::string> lines;
  std::unique_ptr<Caretaker> caretaker;  // ends first
};

}  // namespace onepen::sqlite::testing
