#include "watched_home.h"

#include "home/object/file_store.h"
#include "home/object/object_home.h"
#include "home/object/open_home.h"
#include "home/object/probe.h"

namespace onepen::bench {
namespace {

using core::Answer;

class WatchedStore final : public home::ObjectStore {
 public:
  WatchedStore(std::unique_ptr<home::ObjectStore> store, Notes& notes) : store_(std::move(store)), notes_(notes) {}
  Result<Bytes> get(const std::string& key) override { return noted().get(key); }
  Result<Bytes> get_range(const std::string& key, std::uint64_t from, std::uint64_t size) override { return noted().get_range(key, from, size); }
  Result<home::PutOutcome> put_if_absent(const std::string& key, ByteView bytes) override { return noted().put_if_absent(key, bytes); }
  Result<> put(const std::string& key, ByteView bytes) override { return noted().put(key, bytes); }
  Result<std::vector<std::string>> list(const std::string& folder, const std::string& after, std::size_t limit) override {
    return noted().list(folder, after, limit);
  }
  Result<> erase(const std::string& key) override { return noted().erase(key); }
  std::optional<bool> has(const std::string& key) override { return store_->has(key); }
  std::string describe() const override { return store_->describe(); }

 private:
  home::ObjectStore& noted() {
    notes_.request();
    return *store_;
  }
  std::unique_ptr<home::ObjectStore> store_;
  Notes& notes_;
};

class WatchedStream final : public core::Stream {
  // Above its users: its type is told by its body.
  template <class Ask>
  auto noted(const char* what, Ask ask) {
    Call call{what, Clock::now(), {}, notes_.requests()};
    auto answer = ask();
    call.to = Clock::now();
    call.requests = notes_.requests() - call.requests;
    notes_.add(std::move(call));
    return answer;
  }

 public:
  WatchedStream(std::unique_ptr<core::Stream> stream, Notes& notes) : stream_(std::move(stream)), notes_(notes) {}
  const StreamName& name() const override { return stream_->name(); }
  Answer<core::StreamStat> stat() override {
    return noted("stat", [&] { return stream_->stat(); });
  }
  Answer<core::ClaimReceipt> claim(const core::ClaimRequest& request) override {
    return noted("claim", [&] { return stream_->claim(request); });
  }
  Answer<core::AppendReceipt> append(const core::AppendBatch& batch) override {
    return noted("append", [&] { return stream_->append(batch); });
  }
  Answer<core::ReadResult> read(const Offset& from, const core::ReadLimit& limit) override {
    return noted("read", [&] { return stream_->read(from, limit); });
  }
  Answer<bool> wait(const Offset& from, Instant deadline) override { return stream_->wait(from, deadline); }
  Answer<bool> beat(const std::string& liveness, ByteView content) override { return stream_->beat(liveness, content); }
  Answer<std::optional<Bytes>> pulse(const std::string& liveness) override { return stream_->pulse(liveness); }
  Answer<std::optional<core::SnapshotInfo>> newest_snapshot() override { return stream_->newest_snapshot(); }
  Answer<std::vector<core::SnapshotInfo>> snapshots() override { return stream_->snapshots(); }
  Answer<Bytes> snapshot_part(const core::SnapshotInfo& info, std::uint32_t number) override { return stream_->snapshot_part(info, number); }
  Answer<std::unique_ptr<core::SnapshotWriter>> begin_snapshot(const core::OwnerToken& token, const Offset& at) override {
    return stream_->begin_snapshot(token, at);
  }
  Answer<core::Tended> tend(const core::TendRequest& request) override { return stream_->tend(request); }
  Answer<core::Usage> usage() override { return stream_->usage(); }
  Answer<std::vector<core::HistoryEvent>> events() override { return stream_->events(); }
  Answer<core::HistoryReceipt> begin_history(const core::HistoryRequest& request) override { return stream_->begin_history(request); }
  Answer<bool> remove(const core::RemoveRequest& request) override { return stream_->remove(request); }
  Answer<bool> report_suspect(const core::OwnerToken& token, std::string_view evidence) override { return stream_->report_suspect(token, evidence); }

 private:
  std::unique_ptr<core::Stream> stream_;
  Notes& notes_;
};

class WatchedHome final : public core::Home {
 public:
  WatchedHome(std::unique_ptr<core::Home> home, Notes& notes) : home_(std::move(home)), notes_(notes) {}
  std::unique_ptr<core::Stream> stream(const StreamName& name) override { return std::make_unique<WatchedStream>(home_->stream(name), notes_); }
  Result<std::vector<std::string>> list(const std::string& prefix) override { return home_->list(prefix); }
  const std::string& url() const override { return home_->url(); }
  core::Pace pace() const override { return home_->pace(); }

 private:
  std::unique_ptr<core::Home> home_;
  Notes& notes_;
};

class DiskWithoutSyncs final : public io::Disk {
 public:
  explicit DiskWithoutSyncs(io::Disk& disk) : disk_(disk) {}
  io::DiskResult<Bytes> read(const std::string& path, std::uint64_t from, std::uint64_t max_bytes) override { return disk_.read(path, from, max_bytes); }
  io::DiskResult<std::uint64_t> size(const std::string& path) override { return disk_.size(path); }
  io::DiskResult<> create(const std::string& path, ByteView bytes, bool) override { return disk_.create(path, bytes, false); }
  io::DiskResult<> append(const std::string& path, ByteView bytes, bool) override { return disk_.append(path, bytes, false); }
  io::DiskResult<> write_at(const std::string& path, std::uint64_t from, ByteView bytes, bool) override { return disk_.write_at(path, from, bytes, false); }
  io::DiskResult<std::unique_ptr<io::DiskFile>> open(const std::string& path, io::OpenMode mode) override { return disk_.open(path, mode); }
  io::DiskResult<io::FileIdentity> identity(const std::string& path) override { return disk_.identity(path); }
  io::DiskResult<> link(const std::string& from, const std::string& to) override { return disk_.link(from, to); }
  io::DiskResult<> rename(const std::string& from, const std::string& to) override { return disk_.rename(from, to); }
  io::DiskResult<> remove(const std::string& path) override { return disk_.remove(path); }
  io::DiskResult<> create_whole(const std::string& path, ByteView bytes, bool, const std::string& scratch) override {
    return disk_.create_whole(path, bytes, false, scratch);
  }
  io::DiskResult<> sync_folder(const std::string&) override { return {}; }
  io::DiskResult<> make_folders(const std::string& path) override { return disk_.make_folders(path); }
  io::DiskResult<std::vector<std::string>> list(const std::string& path, const std::string& after, std::size_t limit) override {
    return disk_.list(path, after, limit);
  }

 private:
  io::Disk& disk_;
};

}  // namespace

std::unique_ptr<core::Home> watched_home(Runtime& runtime, io::Disk& disk, const std::string& url, Notes& notes) {
  const auto path = home::path_of_file_url(url);
  if (!path) give_up(path.error().message);
  home::ObjectHomeOptions options;
  options.url = url;
  options.prepare_writing = [&runtime, &disk, &notes, path = *path] {
    Call call{"prove", Clock::now(), {}, 0};
    auto proved = home::probe_can_fence(runtime, *home::make_file_store(runtime, disk, path));
    call.to = Clock::now();
    notes.add(std::move(call));
    return proved;
  };
  auto store = std::make_unique<WatchedStore>(home::make_file_store(runtime, disk, *path), notes);
  return std::make_unique<WatchedHome>(home::make_object_home(runtime, std::move(store), std::move(options)), notes);
}

std::unique_ptr<io::Disk> disk_without_syncs(io::Disk& disk) { return std::make_unique<DiskWithoutSyncs>(disk); }

}  // namespace onepen::bench
