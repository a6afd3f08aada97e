// How a database is opened: by its owner, offline, or only to be read; with a WAL that is there already, and commits in it that nobody has sent.
#include <fmt/format.h>

#include <algorithm>

#include "base/guard.h"
#include "sqlite/initial_page.h"
#include "sqlite/messages.h"
#include "sqlite/open_database.h"
#include "sqlite/page_sum.h"
#include "sqlite/wal_tail.h"

namespace onepen::sqlite {
namespace {

// With offline=1 an open does not wait for a home out of reach as long as one that cannot do without it; nor does the keeper, which tries again.
constexpr std::chrono::seconds kOfflineOpenWithin{3};

core::OwnerInfo describe_us(Runtime& runtime, const OpenSettings& settings) {
  const ProcessIdentity us = runtime.identity();
  core::OwnerInfo info;
  info.name = settings.owner_name;
  info.host = us.host;
  info.pid = us.pid;
  info.started_ms = us.started_ms;
  info.why = "open";
  info.version = ONEPEN_VERSION;
  return info;
}

// Of the home: nothing there, nobody answers, no permission. Of a stream: nobody answers. Anything else is an answer.
bool out_of_reach(const Error& error, bool home) {
  switch (error.outcome) {
    case Outcome::unavailable:
    case Outcome::unknown: return true;
    case Outcome::not_found:
    case Outcome::unauthorised: return home;
    default: return false;
  }
}

}  // namespace

Result<> OpenDatabase::open_home() {
  if (home_) return {};
  auto home = environment_.open_home(settings_.home_url);
  if (!home) return tl::unexpected(home.error());
  home_ = std::move(*home);
  requests_before_ = home_->requests();
  home_now_.store(home_.get(), std::memory_order_release);
  return {};
}

// Readers begin with everything that was in the stream when they were opened, and see what comes then.
Result<> OpenDatabase::start_following() {
  if (auto opened = open_home(); !opened) return opened;
  auto stream = home_->stream(*settings_.name);
  if (auto done = copy_->catch_up(*stream, settings_.progress); !done) return tl::unexpected(done.error());
  if (copy_->state().ordinal == 0)
    return tl::unexpected(Error{
        Outcome::not_found, fmt::format("There is no database '{}' at {} (mode=ro opens only what is there).", settings_.name->text(), home_->url()), {}});
  if (auto live = copy_->go_live(environment_.live); !live) return live;
  const ProcessIdentity us = environment_.runtime->identity();
  const core::Pace pace = home_->pace();
  standby_ = std::make_unique<owner::Standby>(*environment_.runtime, settings_.name->text(),
                                              owner::StandbyOptions{core::describe(Owner{{}, settings_.owner_name, us.host, {}, us.pid}),
                                                                    settings_.term.value_or(kDefaultTerm), settings_.standby, pace.metered},
                                              environment_.log);
  FollowManners manners;
  manners.pace = pace;
  manners.look = std::min<std::chrono::nanoseconds>(kFollowLook, settings_.max_staleness.value_or(kFollowLook) / 2);
  manners.turn = [this](core::Stream& at) { return take_turn(at); };
  manners.patience = [this] { return standby_->patience(); };
  manners.company = environment_.followers;
  follow_ = std::make_unique<Follow>(
      *environment_.runtime, *copy_, std::move(stream), settings_.name->text(), [this](const Error& error) { on_follow_ended(error); }, environment_.log,
      std::move(manners));
  follower_.store(true, std::memory_order_release);
  follow_->begin();
  return {};
}

Result<> OpenDatabase::start(bool follower, bool create) {
  if (follower) {
    if (auto done = start_following(); !done) return done;
  } else if (auto done = start_owner(create); !done) {
    return done;
  }
  salvaged_ = copy_->salvaged();
  note_committed();
  return {};
}

owner::Options OpenDatabase::owner_options(const OpenSettings& settings) {
  owner::Options options;
  options.info = describe_us(*environment_.runtime, settings);
  options.takeover = settings.takeover;
  const bool metered = home_->pace().metered;
  if (settings.notice_within) options.notice_within = *settings.notice_within;
  else options.notice_within = metered ? core::kNoLook : std::chrono::nanoseconds(kDefaultNoticeWithin);
  options.metered = metered;
  options.max_objects_per_second = settings.max_objects_per_second;
  options.progress = settings.progress;
  options.log = environment_.log;
  options.interrupted = &closing_;
  options.absent_is_away = settings.offline;
  if (settings.offline) options.open_within = kOfflineOpenWithin;
  options.term = settings.term.value_or(kDefaultTerm);
  if (settings.term) {
    options.liveness = true;
    options.on_successor = [this](const std::string& successor) {
      if (Keeper* const keeper = this->keeper()) keeper->hand_over(successor);
    };
  }
  return options;
}

Result<> OpenDatabase::start_owner(bool create) {
  if (auto opened = open_home(); !opened) return settings_.offline && out_of_reach(opened.error(), true) ? start_offline(opened.error()) : opened;
  owner::Options options = owner_options(settings());
  options.create = create;
  auto opened = owner::Owner::open(*environment_.runtime, home_->stream(*settings_.name), *copy_, *copy_, std::move(options));
  if (!opened) {
    if (settings_.offline && out_of_reach(opened.error(), false)) return start_offline(opened.error());
    return tl::unexpected(opened.error());
  }
  std::uint64_t asked = 0;
  for (const auto& [kind, sent] : requests()) asked += sent;
  opening_requests_.store(asked, std::memory_order_release);
  return begin_to_own(std::move(*opened));
}

// The claim is ours, and everything before it is in the copy.
Result<> OpenDatabase::begin_to_own(std::shared_ptr<owner::Owner> owner) {
  const auto give_up = [&](Error error) {
    static_cast<void>(owner->stop(environment_.runtime->now()));
    return tl::unexpected(std::move(error));
  };
  const owner::Status owned = owner->status();
  if (!owned.notice.empty()) note(owned.notice);
  const Token& token = owned.token;
  core::OwnerToken ours{{}, token.epoch, {}};
  if (!parse(token.incarnation, ours.incarnation) || !parse(token.claim_id, ours.claim_id))
    return give_up(Error{Outcome::invalid, "The home gave a claim without an id.", {}});
  if (const auto kept = copy_->remember_owned(ours); !kept) return give_up(kept.error());
  if (copy_->state().ordinal == 0) {
    if (auto done = first_commit(*owner); !done) return give_up(done.error());
  }
  if (follower()) copy_->own();
  if (auto done = start_capture(owner); !done) return give_up(done.error());
  if (local() || !hold_.pending()) return {};
  // Commits that a process with durability=local left: with durability=replicated there is nothing behind the stream.
  const auto sent = keeper_->flush(environment_.runtime->now() + settings().commit_timeout);
  return sent ? sent : give_up(sent.error());
}

// Only a copy that is trusted, and that remembers the claim by which this machine owned the stream, can go on without the home (fence.md, "The claim").
Result<> OpenDatabase::start_offline(const Error& why) {
  // What an open read of the stream before the home went away is in the copy's state, and not yet in its database: without this, commits made now would
  // be based on pages that lack it, and would undo acknowledged ones once they are sent (I3, I9).
  if (auto settled = copy_->settle(); !settled) return settled;
  std::string lacks;
  if (copy_->state().ordinal == 0) lacks = "there is no local copy of it on this machine";
  else if (!copy_->owned()) lacks = "its local copy never owned the stream";
  else if (copy_->behind()) lacks = "its local copy lacks commits that are in the stream";
  if (!lacks.empty())
    return tl::unexpected(
        Error{Outcome::unavailable,
              fmt::format("'{}' cannot be opened offline: {}. Open it once while the home can be reached. ({})", settings_.name->text(), lacks, why.message),
              {}});
  // The last owner's `released` record, say, is no commit of those that come now.
  if (copy_->pending().empty()) {
    if (auto noted = copy_->nothing_was_sent(); !noted) return noted;
  }
  environment_.log(LogLevel::warn, fmt::format("'{}' is opened offline: {}. Commits are kept in the local copy {} until the home can be reached.",
                                               settings_.name->text(), why.message, copy_->folder()));
  return start_capture(nullptr);
}

Result<> OpenDatabase::start_capture(std::shared_ptr<owner::Owner> owner) {
  page_size_ = copy_->state().page_size;
  KeeperDesk& desk = *this;
  keeper_ = std::make_unique<Keeper>(*environment_.runtime, *environment_.disk, *copy_, hold_, desk, settings_.name->text(),
                                     KeeperOptions{local(), settings().max_linger}, environment_.log);
  capture_ = std::make_unique<Capture>(*environment_.runtime, *copy_, *keeper_, hold_, *this, settings().max_pending_bytes);
  if (auto found = find_wal(); !found) return found;
  CaretakerSeat& seat = *this;
  caretaker_ = std::make_unique<Caretaker>(*environment_.runtime, seat, CaretakerOptions{settings().snapshot_after}, environment_.log);
  keeper_now_.store(keeper_.get(), std::memory_order_release);
  caretaker_now_.store(caretaker_.get(), std::memory_order_release);
  if (auto begun = keeper_->begin(owner); !begun) return begun;
  if (owner) owner_came(*owner);
  return {};
}

// The WAL that is there, before SQLite opens it: what of it is pending, and what its recovery must find.
Result<> OpenDatabase::find_wal() {
  const auto scan = scan_wal(*environment_.disk, copy_->db_path() + "-wal");
  if (!scan) return tl::unexpected(scan.error());
  if (scan->end.frame == 0) {
    hold_.begin({copy_->state(), {}, {}, 0, {}, copy_->state().page_count});
    return {};
  }
  if (scan->page_size != page_size_)
    return tl::unexpected(Error{Outcome::state_mismatch, fmt::format("the WAL of {} has pages of another size", copy_->db_path()), {}});
  const WalPlace place = copy_->place();
  WalBeginning found{copy_->state(), scan->end, {scan->end.salt1, scan->end.salt2, 0}, 0, {}, copy_->wal_began_with()};
  if (place.salt1 == scan->end.salt1 && place.salt2 == scan->end.salt2) found.acknowledged.frame = std::min(place.frame, scan->end.frame);
  std::unordered_map<std::uint32_t, WalSlot> newest;
  std::vector<std::uint32_t> written;
  std::uint32_t before = copy_->wal_began_with();
  WalSlot slot = 0;
  for (const TailFrame& frame : scan->frames) {
    newest[frame.page_number] = ++slot;
    written.push_back(frame.page_number);
    if (frame.page_count_after == 0) continue;
    if (slot > found.acknowledged.frame) ++found.pending;
    std::sort(written.begin(), written.end());
    written.erase(std::unique(written.begin(), written.end()), written.end());
    update_gaps(found.gaps, page_size_, before, frame.page_count_after, written);
    if (written.back() > frame.page_count_after || before > frame.page_count_after)
      std::erase_if(newest, [&](const auto& entry) { return entry.first > frame.page_count_after; });
    before = frame.page_count_after;
    written.clear();
  }
  capture_->frames().found({scan->end.salt1, scan->end.salt2}, newest, scan->end.frame);
  watch_.found({scan->end.frame, scan->page_count, scan->checksum.one, scan->checksum.two, scan->end.salt1, scan->end.salt2});
  hold_.begin(std::move(found));
  return {};
}

Result<std::shared_ptr<owner::Owner>> OpenDatabase::claim_again(const owner::SelfClaim& claim, owner::Fold& fold, owner::ClaimLog& claims) {
  if (auto opened = open_home(); !opened) {
    opened.error().outcome = Outcome::unavailable;  // whatever is wrong with the place: the stream was not asked
    return tl::unexpected(opened.error());
  }
  owner::Options options = owner_options(settings());
  options.progress = {};
  options.create = false;
  options.open_within = kOfflineOpenWithin;
  options.info.why = "self-claim";
  if (guard_on(Guard::self_claim_conditional)) options.self_claim = claim;
  auto opened = owner::Owner::open(*environment_.runtime, home_->stream(*settings_.name), claims, fold, std::move(options));
  if (!opened) return tl::unexpected(opened.error());
  return std::shared_ptr<owner::Owner>(std::move(*opened));
}

// A database that nobody ever wrote begins as page 1 in WAL format: SQLite itself would begin in rollback mode, which we cannot capture.
Result<> OpenDatabase::first_commit(owner::Owner& owner) {
  const Bytes page = initial_page(settings_.page_size);
  wire::PageCodec codec;
  Bytes payload;
  const wire::CommitHead head{1, settings_.page_size, 1, {0, 0}};
  wire::PartEncoder encoder(codec, head, [&](Bytes part) -> Result<> {
    payload = std::move(part);
    return {};
  });
  if (auto done = encoder.add(1, page); !done) return done;
  if (auto done = encoder.finish(page_hash_of(1, page)); !done) return done;
  const Instant deadline = environment_.runtime->now() + settings_.commit_timeout;
  auto ticket = owner.submit(payload, deadline);
  if (!ticket) return tl::unexpected(ticket.error());
  const owner::Fate fate = owner.wait(*ticket, deadline, nullptr);
  if (fate.kind != owner::Fate::Kind::acknowledged)
    return tl::unexpected(
        fate.error.value_or(Error{Outcome::unknown, "The home did not say whether the new database was made; open it again: that tells.", {}}));
  core::Record record;
  record.kind = core::RecordKind::data;
  const Token token = owner.status().token;
  record.epoch = token.epoch;
  if (!parse(token.incarnation, record.incarnation) || !parse(token.claim_id, record.claim_id))
    return tl::unexpected(Error{Outcome::invalid, "The home gave a claim without an id.", {}});
  record.sequence = Sequence{1};
  record.next = fate.offset;
  record.payload = std::move(payload);
  if (auto done = copy_->apply(record); !done) return done;
  return copy_->settle();
}

}  // namespace onepen::sqlite
