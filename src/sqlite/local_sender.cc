#include "sqlite/local_sender.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/failpoint.h"

namespace onepen::sqlite {
namespace {

// In flight at once: well below what the owner queues, and keeps the fates of (owner.h).
constexpr std::uint32_t kMaxFlightParts = 1024;
constexpr std::uint64_t kMaxFlightBytes = 32u << 20;
// A commit up to this is held in memory while it is encoded; a larger one's pages are read a second time.
constexpr std::size_t kWholeCommitBytes = 4u << 20;
constexpr std::chrono::milliseconds kAnswerLook{100};

tl::unexpected<Error> not_published(const std::string& path, std::uint32_t frame) {
  return tl::unexpected(Error{Outcome::state_mismatch,
                              fmt::format("frame {} of {} is not what SQLite published: something else wrote to the WAL, or the disk is damaged", frame, path),
                              {}});
}

}  // namespace

LocalSender::LocalSender(Runtime& runtime, io::Disk& disk, Copy& copy, WalHold& hold)
    : runtime_(runtime), copy_(copy), hold_(hold), tail_(disk, copy.db_path() + "-wal") {}

void LocalSender::rewind() {
  ready_ = false;
  flight_.clear();
  flight_bytes_ = flight_parts_ = 0;
  landing_.reset();
  taken_ = hold_.view().acknowledged_commits;
}

// Begins at the last acknowledged commit, in the WAL as it is now. The frames before it are read as well: they are what deltas are made against.
Result<> LocalSender::prepare() {
  const WalHold::View view = hold_.view();
  const WalPlace now = tail_.place();
  if (ready_ && now.salt1 == view.published.salt1 && now.salt2 == view.published.salt2) return {};
  taken_ = view.acknowledged_commits;
  base_ = copy_.state();
  frames_.clear();
  hashes_.clear();
  const auto there = tail_.open();
  if (!there) return tl::unexpected(there.error());
  const WalPlace begin = tail_.place();
  if (!*there || begin.salt1 != view.published.salt1 || begin.salt2 != view.published.salt2) return not_published(copy_.db_path() + "-wal", 1);
  std::uint32_t highest = 0;  // page with an entry in frames_
  while (tail_.place().frame < view.acknowledged.frame) {
    const auto frame = tail_.next(view.acknowledged.frame);
    if (!frame) return tl::unexpected(frame.error());
    if (!*frame) return not_published(copy_.db_path() + "-wal", tail_.place().frame + 1);
    frames_[(*frame)->page_number] = tail_.place().frame;
    highest = std::max(highest, (*frame)->page_number);
    const std::uint32_t count = (*frame)->page_count_after;
    if (count == 0 || highest <= count) continue;
    std::erase_if(frames_, [&](const auto& entry) { return entry.first > count; });  // cut: what comes back is no continuation of it
    highest = count;
  }
  ready_ = true;
  return {};
}

Result<> LocalSender::work(owner::Owner& owner, const Incarnation& incarnation, const std::atomic<bool>& stop, const std::function<void(std::uint64_t)>& told) {
  last_batch_ = 0;
  const WalHold::View view = hold_.view();
  while (!stop.load()) {
    if (auto taken = take_answers(owner, Instant::min(), told); !taken) return taken;
    if (view.published_commits > taken_ && flight_parts_ < kMaxFlightParts && flight_bytes_ < kMaxFlightBytes) {
      if (auto ready = prepare(); !ready) return ready;
      if (auto sent = send_next(owner, incarnation, view.published.frame); !sent) return drained(owner, told, stop, sent.error());
      ++last_batch_;
      continue;
    }
    if (flight_.empty()) return {};
    const Instant until = runtime_.now() + kAnswerLook;
    const std::size_t flying = flight_.size();
    if (auto taken = take_answers(owner, until, told); !taken) return taken;
    if (flight_.size() == flying && runtime_.now() < until)  // it did not wait: the owner's thread has ended, or the process is being stopped
      return tl::unexpected(Error{Outcome::unavailable, "The handle is being closed.", {}});
  }
  return {};
}

// Something failed before its append, while others are on their way: those are decided first. Forgotten, they would be sent a second time (I3).
Result<> LocalSender::drained(owner::Owner& owner, const std::function<void(std::uint64_t)>& told, const std::atomic<bool>& stop, Error error) {
  while (!flight_.empty() && !stop.load()) {
    const Instant until = runtime_.now() + kAnswerLook;
    const std::size_t flying = flight_.size();
    if (auto taken = take_answers(owner, until, told); !taken) return taken;
    if (flight_.size() == flying && runtime_.now() < until) break;  // the owner's thread has ended: nothing is sent any more
  }
  return tl::unexpected(std::move(error));
}

Result<> LocalSender::send_next(owner::Owner& owner, const Incarnation& incarnation, std::uint32_t end) {
  InFlight flying;
  std::optional<Error> refused;
  auto commit = encode_next(end, [&](Bytes part) -> Result<> {
    flying.bytes += part.size();
    ++flying.parts;
    if (ONEPEN_FAILPOINT("sender.before_submit")) return tl::unexpected(Error{Outcome::unavailable, "A failpoint refused a part of the commit.", {}});
    // What was published together goes together: the first of it must not leave alone, as a batch of its own, while the rest is encoded.
    auto ticket = owner.submit(std::move(part), Instant::max(), core::RecordKind::data, owner::More::yes);
    if (!ticket) return tl::unexpected(ticket.error());
    flying.last = *ticket;
    return {};
  });
  if (!commit) return tl::unexpected(commit.error());
  commit->next.incarnation = incarnation;
  flying.commit = std::move(*commit);
  flight_bytes_ += flying.bytes;
  flight_parts_ += flying.parts;
  flight_.push_back(std::move(flying));
  return {};
}

// In order. Instant::min(): those that are there already.
Result<> LocalSender::take_answers(owner::Owner& owner, Instant until, const std::function<void(std::uint64_t)>& told) {
  while (!flight_.empty()) {
    const owner::Fate fate = owner.wait(flight_.front().last, until, nullptr);
    if (fate.kind == owner::Fate::Kind::undecided) {
      if (const auto reset = owner.status().reset) return tl::unexpected(fate.error.value_or(Error{Outcome::epoch_closed, reset->message, reset->current}));
      return {};
    }
    if (fate.kind == owner::Fate::Kind::refused) {
      owner.wait(flight_.back().last, Instant::min(), nullptr);  // everything behind it is refused as well: told of by this
      return tl::unexpected(fate.error.value_or(Error{Outcome::unavailable, "The commit was refused.", {}}));
    }
    if (fate.offset.text.empty())  // applied just before we were fenced, and the home cannot say where: opening again reads it
      return tl::unexpected(Error{Outcome::epoch_closed, "The last commit was applied just before the handle was fenced.", {}});
    InFlight flying = std::move(flight_.front());
    flight_.pop_front();
    flight_bytes_ -= flying.bytes;
    flight_parts_ -= flying.parts;
    flying.commit.next.offset = fate.offset;
    flying.commit.sequence = fate.sequence;
    if (ONEPEN_FAILPOINT("sender.after_ack")) {
      out_of_step_ = true;
      return tl::unexpected(Error{Outcome::unavailable, "A failpoint stands after the acknowledgement.", {}});
    }
    if (auto done = acknowledge(std::move(flying.commit)); !done) return done;
    if (told) told(flying.bytes);
    until = Instant::min();
  }
  return {};
}

Result<> LocalSender::acknowledge(Commit commit) {
  for (const auto& [page, hash] : commit.hashes) {
    const auto now = hashes_.find(page);
    if (now != hashes_.end() && now->second.second == commit.next.ordinal) hashes_.erase(now);
  }
  if (auto done = copy_.acknowledged(commit.next, std::move(commit.hashes), commit.end, commit.sequence); !done) {
    out_of_step_ = true;  // never sent again from here (I3): the next opening reads that it has landed
    return done;
  }
  hold_.acknowledge(commit.end, std::move(commit.next));
  return {};
}

// ---- one commit

std::uint64_t LocalSender::hash_now(std::uint32_t page) const {
  const auto found = hashes_.find(page);
  return found != hashes_.end() ? found->second.first : copy_.page_hash(page);
}

// The frames up to the one that commits: their pages in sources_, rising, the last frame of each.
Result<> LocalSender::read_commit(std::uint32_t end, std::uint32_t& page_count_after) {
  sources_.clear();
  images_.clear();
  whole_ = true;
  for (page_count_after = 0; page_count_after == 0;) {
    const auto frame = tail_.next(end);
    if (!frame) return tl::unexpected(frame.error());
    if (!*frame) return not_published(copy_.db_path() + "-wal", tail_.place().frame + 1);
    page_count_after = (*frame)->page_count_after;
    sources_.push_back({(*frame)->page_number, tail_.place().frame, images_.size()});
    whole_ = whole_ && images_.size() < kWholeCommitBytes;
    if (whole_) images_.insert(images_.end(), tail_.image().begin(), tail_.image().end());
  }
  const std::uint32_t lock_page = lock_byte_page(base_.page_size);
  std::erase_if(sources_, [&](const Source& source) { return source.page > page_count_after || source.page == lock_page; });
  std::sort(sources_.begin(), sources_.end(), [](const Source& a, const Source& b) { return a.page != b.page ? a.page < b.page : a.slot > b.slot; });
  sources_.erase(std::unique(sources_.begin(), sources_.end(), [](const Source& a, const Source& b) { return a.page == b.page; }), sources_.end());
  return {};
}

Result<LocalSender::Commit> LocalSender::encode_next(std::uint32_t end, const wire::PartEncoder::Sink& sink) {
  if (tail_.page_size() != base_.page_size) return not_published(copy_.db_path() + "-wal", 1);
  Commit commit;
  commit.next = base_;
  commit.next.ordinal = base_.ordinal + 1;
  if (auto read = read_commit(end, commit.next.page_count); !read) return tl::unexpected(read.error());
  commit.end = tail_.place();
  // Cut pages leave the sum, pages grown over without a frame come in as zeros.
  for (std::uint32_t page = commit.next.page_count + 1; page <= base_.page_count; ++page) {
    if (page != lock_byte_page(base_.page_size)) commit.next.page_sum -= hash_now(page);
  }
  const wire::CommitHead head{commit.next.ordinal, base_.page_size, commit.next.page_count, {base_.page_sum, base_.page_count}};
  wire::PartEncoder encoder(codec_, head, sink);
  if (auto added = add_pages(encoder, commit); !added) return tl::unexpected(added.error());
  if (auto done = encoder.finish(commit.next.page_sum); !done) return tl::unexpected(done.error());
  move_on(commit);
  return commit;
}

Result<> LocalSender::add_pages(wire::PartEncoder& encoder, Commit& commit) {
  image_.resize(base_.page_size);
  previous_.resize(base_.page_size);
  commit.hashes.reserve(sources_.size());
  std::uint32_t grown = base_.page_count + 1;
  const auto grow_to = [&](std::uint32_t page) {  // the gaps before it
    for (; grown < page; ++grown) {
      if (grown == lock_byte_page(base_.page_size)) continue;
      const std::uint64_t hash = zero_page_hash(grown, base_.page_size);
      commit.next.page_sum += hash;
      hashes_[grown] = {hash, commit.next.ordinal};
    }
    ++grown;
  };
  for (const Source& source : sources_) {
    if (source.page > base_.page_count) grow_to(source.page);
    ByteView image;
    if (whole_) image = ByteView(images_).subspan(source.image_at, base_.page_size);
    else if (auto read = tail_.read_image(source.slot, image_); !read) return read;
    else image = image_;
    ByteView previous;
    const auto before = frames_.find(source.page);
    if (source.page <= base_.page_count && before != frames_.end()) {
      if (auto read = tail_.read_image(before->second, previous_); !read) return read;
      previous = previous_;
    }
    const std::uint64_t hash = page_hash_of(source.page, image);
    commit.next.page_sum += hash - (source.page <= base_.page_count ? hash_now(source.page) : 0);
    commit.hashes.emplace_back(source.page, hash);
    if (auto added = encoder.add(source.page, image, previous); !added) return added;
  }
  grow_to(commit.next.page_count + 1);
  return {};
}

void LocalSender::move_on(const Commit& commit) {
  for (const auto& [page, hash] : commit.hashes) hashes_[page] = {hash, commit.next.ordinal};
  std::vector<std::uint32_t> written;
  written.reserve(sources_.size());
  for (const Source& source : sources_) {
    frames_[source.page] = source.slot;
    written.push_back(source.page);
  }
  hold_.note_pages(base_.page_size, base_.page_count, commit.next.page_count, written);
  if (commit.next.page_count < base_.page_count) {
    std::erase_if(frames_, [&](const auto& entry) { return entry.first > commit.next.page_count; });
    std::erase_if(hashes_, [&](const auto& entry) { return entry.first > commit.next.page_count; });
  }
  base_ = commit.next;
  ++taken_;
}

// ---- going on in a stream that may have it already

Result<bool> LocalSender::landed(const core::Record& record) {
  auto part = wire::decode_part(record.payload);
  if (!part) return false;
  if (part->number == 1) {
    if (landing_) rewind();  // parts without their last one: void
    const WalHold::View view = hold_.view();
    if (view.pending() == 0) return false;
    if (auto ready = prepare(); !ready) return tl::unexpected(ready.error());
    Landing landing;
    landing.head = {base_.ordinal + 1, base_.page_size, 0, {base_.page_sum, base_.page_count}};
    auto commit = encode_next(view.published.frame, [](Bytes) -> Result<> { return {}; });
    if (!commit) return tl::unexpected(commit.error());
    landing.head.page_count_after = commit->next.page_count;
    landing.commit = std::move(*commit);
    landing_ = std::move(landing);
  }
  if (!landing_ || !(part->head == landing_->head) || part->number != landing_->parts + 1) return false;
  landing_->parts = part->number;
  if (!part->last) return true;
  Commit commit = std::move(landing_->commit);
  landing_.reset();
  if (part->sum_after != commit.next.page_sum) return false;
  commit.next.offset = record.next;
  commit.next.incarnation = record.incarnation;
  if (const auto owned = copy_.owned(); owned && owned->claim_id == record.claim_id) commit.sequence = record.sequence;
  if (auto done = acknowledge(std::move(commit)); !done) return tl::unexpected(done.error());
  return true;
}

}  // namespace onepen::sqlite
