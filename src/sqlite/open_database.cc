#include "sqlite/open_database.h"

#include <fmt/format.h>

#include "sqlite/initial_page.h"
#include "sqlite/messages.h"
#include "sqlite/page_sum.h"

namespace onepen::sqlite {
namespace {

constexpr std::chrono::seconds kCloseFlush{5};

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

ResetKind kind_after(Outcome outcome) {
  switch (outcome) {
    case Outcome::incarnation_changed: return ResetKind::rewound;
    case Outcome::not_found:
    case Outcome::gone: return ResetKind::removed;
    case Outcome::cloned:
    case Outcome::sequence_gap:
    case Outcome::state_mismatch: return ResetKind::diverged;
    case Outcome::unauthorised:
    case Outcome::quota: return ResetKind::refused;
    default: return ResetKind::fenced;
  }
}

}  // namespace

OpenDatabase::OpenDatabase(const Environment& environment, OpenSettings settings, std::unique_ptr<Copy> copy)
    : environment_(environment), settings_(std::move(settings)), copy_(std::move(copy)) {}

OpenDatabase::~OpenDatabase() { stop(); }

Result<std::unique_ptr<OpenDatabase>> OpenDatabase::acquire(const Environment& environment, OpenSettings settings) {
  const CopyPlace place{settings.cache_root, settings.home_url, *settings.name};
  auto copy = Copy::acquire(*environment.runtime, *environment.disk, place, environment.log);
  if (!copy) return tl::unexpected(copy.error());
  return std::unique_ptr<OpenDatabase>(new OpenDatabase(environment, std::move(settings), std::move(*copy)));
}

Result<> OpenDatabase::start(bool follower, bool create) {
  auto home = environment_.open_home(settings_.home_url);
  if (!home) return tl::unexpected(home.error());
  home_ = std::move(*home);
  auto stream = home_->stream(*settings_.name);
  if (follower) {
    if (auto done = copy_->catch_up(*stream, settings_.progress); !done) return tl::unexpected(done.error());
    if (copy_->state().ordinal == 0)
      return tl::unexpected(Error{
          Outcome::not_found, fmt::format("There is no database '{}' at {} (mode=ro opens only what is there).", settings_.name->text(), home_->url()), {}});
    follower_ = true;
  } else if (auto done = start_owner(std::move(stream), create); !done) {
    return done;
  }
  note_committed();
  return {};
}

Result<> OpenDatabase::start_owner(std::unique_ptr<core::Stream> stream, bool create) {
  owner::Options options;
  options.info = describe_us(*environment_.runtime, settings_);
  options.takeover = settings_.takeover;
  options.create = create;
  options.notice_within = settings_.notice_within;
  options.progress = settings_.progress;
  options.log = environment_.log;
  auto opened = owner::Owner::open(*environment_.runtime, std::move(stream), *copy_, *copy_, std::move(options));
  if (!opened) return tl::unexpected(opened.error());
  owner_ = std::move(*opened);
  owner_->on_reset([this](const Reset& reset) {
    {
      Lock lock(mutex_);
      if (!reset_) reset_ = reset;
    }
    reset_flag_.store(true, std::memory_order_release);
  });
  if (copy_->state().ordinal == 0) {
    if (auto done = first_commit(); !done) {
      owner_->stop(environment_.runtime->now()).has_value();
      return done;
    }
  }
  Incarnation incarnation;
  if (!parse(owner_->status().token.incarnation, incarnation))
    return tl::unexpected(Error{Outcome::invalid, "The home gave a claim without an incarnation.", {}});
  capture_ = std::make_unique<Capture>(*environment_.runtime, *copy_, *owner_, *this, incarnation);
  return {};
}

// A database that nobody ever wrote begins as page 1 in WAL format: SQLite itself would begin in rollback mode, which we cannot capture.
Result<> OpenDatabase::first_commit() {
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
  auto ticket = owner_->submit(payload, deadline);
  if (!ticket) return tl::unexpected(ticket.error());
  const owner::Fate fate = owner_->wait(*ticket, deadline, nullptr);
  if (fate.kind != owner::Fate::Kind::acknowledged)
    return tl::unexpected(
        fate.error.value_or(Error{Outcome::unknown, "The home did not say whether the new database was made; open it again: that tells.", {}}));
  core::Record record;
  record.kind = core::RecordKind::data;
  const Token token = owner_->status().token;
  record.epoch = token.epoch;
  if (!parse(token.incarnation, record.incarnation) || !parse(token.claim_id, record.claim_id))
    return tl::unexpected(Error{Outcome::invalid, "The home gave a claim without an id.", {}});
  record.sequence = Sequence{1};
  record.next = fate.offset;
  record.payload = std::move(payload);
  if (auto done = copy_->apply(record); !done) return done;
  return copy_->settle();
}

void OpenDatabase::stop() {
  if (stopped_) return;
  stopped_ = true;
  if (forked()) {  // the parent's: its threads are not here to be joined, its state file and lock are not ours to touch
    static_cast<void>(capture_.release());
    static_cast<void>(owner_.release());
    static_cast<void>(copy_.release());
    static_cast<void>(home_.release());
    return;
  }
  if (owner_) {
    if (const auto done = owner_->stop(environment_.runtime->now() + kCloseFlush); !done) refuse(done.error().message);
  }
  capture_.reset();
  owner_.reset();
  if (copy_) {
    if (const auto done = copy_->close(); !done) environment_.log(LogLevel::warn, done.error().message);
  }
}

Result<Offset> OpenDatabase::confirm(std::chrono::nanoseconds limit) {
  if (forked()) return tl::unexpected(Error{Outcome::epoch_closed, forked_sentence(), {}});
  if (const auto reset = current_reset()) return tl::unexpected(Error{Outcome::epoch_closed, reset->message, reset->current});
  if (!owner_)
    return tl::unexpected(
        Error{Outcome::not_owner, fmt::format("'{}' is open read-only (mode=ro): it owns nothing that could be confirmed.", settings_.name->text()), {}});
  auto confirmed = owner_->confirm(environment_.runtime->now() + limit);
  // The owner's listener comes on its own thread, perhaps later; the caller has been told, so nothing begins from here on (I7).
  if (!confirmed && owner_->status().reset) reset_after(confirmed.error());
  return confirmed;
}

void OpenDatabase::reset(ResetKind kind, std::string message) {
  if (owner_) owner_->reset(kind, message);
  {
    // The owner's listener may come later, on its own thread; this handle must not begin anything meanwhile.
    const owner::Status owner = owner_ ? owner_->status() : owner::Status{};
    Lock lock(mutex_);
    if (!reset_) reset_ = owner.reset ? *owner.reset : Reset{kind, std::move(message), owner.token.epoch};
  }
  reset_flag_.store(true, std::memory_order_release);
}

void OpenDatabase::reset_after(const Error& refusal) {
  {
    const owner::Status owner = owner_->status();
    Lock lock(mutex_);
    if (!reset_) reset_ = owner.reset ? *owner.reset : Reset{kind_after(refusal.outcome), refusal.message, owner.token.epoch, refusal.current};
  }
  reset_flag_.store(true, std::memory_order_release);
}

std::optional<Reset> OpenDatabase::current_reset() const {
  if (!reset_flag()) return std::nullopt;
  Lock lock(mutex_);
  return reset_;
}

void OpenDatabase::poison(std::string_view why) {
  poisoned_.store(true, std::memory_order_release);
  // Failing to write that down is no news: the state file already names both the state before and after, and neither will fit.
  if (const auto done = copy_->poison(why); !done) environment_.log(LogLevel::error, done.error().message);
}

void OpenDatabase::on_reset(std::function<void(const Reset&)> listener) {
  if (owner_) owner_->on_reset(std::move(listener));
}

void OpenDatabase::note_committed() {
  Lock lock(mutex_);
  committed_ = copy_->state();
}

DatabaseStatus OpenDatabase::status() const {
  DatabaseStatus status;
  status.name = settings_.name->text();
  if (forked()) {
    status.home_url = settings_.home_url;
    status.follower = follower_;
    status.reset = Reset{ResetKind::diverged, forked_sentence(), Epoch{}};
    return status;
  }
  status.home_url = settings_.home_url;
  status.copy_path = copy_->db_path();
  status.follower = follower_;
  if (owner_) status.owner = owner_->status();
  status.reset = current_reset();
  Lock lock(mutex_);
  status.copy = committed_;
  return status;
}

}  // namespace onepen::sqlite
