#include "owner/open.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/failpoint.h"
#include "base/guard.h"
#include "owner/carry.h"
#include "owner/takeover.h"

namespace onepen::owner {
namespace {

constexpr unsigned kMaxRestarts = 3;      // the stream got another incarnation while it was opened
constexpr unsigned kMaxWarmPasses = 8;    // a live writer may outrun the warm-up; then the claim comes anyway (I11)
constexpr unsigned kMaxFirstReads = 1024;  // of a warm fold, before the first look; each is a batch, so this is gigabytes
constexpr std::uint64_t kMostSkipped = 1u << 16;  // claims written ahead and never answered; a log that says more is not of this history

Error error_of(const core::Refusal& refusal) { return Error{refusal.outcome, refusal.message, refusal.current}; }

core::WriterConfig config_of(const std::string& stream, const Options& options) {
  core::WriterConfig config;
  config.stream = stream;
  config.info = options.info;
  config.liveness = options.liveness;
  config.create = options.create;
  config.max_undecided = options.max_undecided;
  config.max_batch_bytes = options.max_batch_bytes;
  config.notice_within = options.notice_within;
  return config;
}

class Opening {
 public:
  Opening(Runtime& runtime, core::Stream& stream, ClaimLog& claims, Fold& fold, const Options& options)
      : runtime_(runtime),
        stream_(stream),
        claims_(claims),
        fold_(fold),
        options_(options),
        ask_(runtime, options.open_within),
        name_(stream.name().text()),
        writer_(config_of(name_, options)) {}

  Result<Opened> run() {
    for (unsigned restarts = 0;; ++restarts) {
      auto opened = once();
      if (opened || opened.error().outcome != Outcome::incarnation_changed || restarts == kMaxRestarts) return opened;
      writer_ = core::Writer(config_of(name_, options_));
    }
  }

 private:
  Result<Opened> once() {
    started_over_ = false;
    if (auto warm = begin_at_the_copy(); !warm) return tl::unexpected(warm.error());
    auto seen = look();
    if (!seen) return tl::unexpected(seen.error());
    if (flapping_wait(options_, *seen).count() > 0 && options_.takeover != TakeoverMode::never) {
      if (!wait_for_calm(runtime_, name_, options_, **seen)) return tl::unexpected(stopped());
      if (seen = look(); !seen) return tl::unexpected(seen.error());
    }
    const auto plan = plan_takeover(runtime_, stream_, options_, *seen);
    if (!plan) return tl::unexpected(plan.error());
    if (*seen) {
      if (auto warm = warm_up((*seen)->tail); !warm) return tl::unexpected(warm.error());
    }
    const Epoch skipped = std::min(claims_.highest(), Epoch{(*seen ? (*seen)->epoch.value : 0) + kMostSkipped});
    core::ClaimNow claim{std::max(*seen ? (*seen)->epoch : Epoch{}, skipped)};
    if (*seen) claim.incarnation = (*seen)->incarnation;
    claim.over = plan->over;
    claim.if_tail = plan->if_tail;
    return claim_and_read(*seen, claim);
  }

  // A warm fold is read on first: then the home's fold begins where ours ends, and what follows costs the same however long the log is. Asked the other way
  // round, the home would read its log from the beginning (bench/takeover). What it answers to a position that it does not have is left to look().
  Result<> begin_at_the_copy() {
    if (fold_.position().text.empty()) return {};
    for (unsigned reads = 0; reads < kMaxFirstReads; ++reads) {
      const auto near = read_on("warm");
      if (near && *near) return {};
      if (near) continue;
      const Outcome outcome = near.error().outcome;
      if (outcome == Outcome::not_found || outcome == Outcome::gone || outcome == Outcome::fence_unavailable) return {};
      return tl::unexpected(near.error());
    }
    return {};
  }

  Result<Seen> look() {
    auto stat = ask_([&] { return stream_.stat(); });
    if (stat) return Seen(*stat);
    if (stat.error().outcome != Outcome::not_found || !options_.create) return tl::unexpected(error_of(stat.error()));
    // A home that lost the stream (emptied, or a folder that is not mounted) must not be taken for one that never had it: a new database over
    // acknowledged commits would hide them. There is no way yet to delete a stream; when there is one, its tombstone is told apart here.
    if (!fold_.position().text.empty()) return tl::unexpected(lost(stat.error().message));
    return Seen();
  }

  // The home has less than the fold was given by it earlier. Claiming would put new commits upon a history that lacks acknowledged ones.
  Error lost(const std::string& found) const {
    return Error{Outcome::fence_unavailable,
                 fmt::format("'{}' was read on this machine up to {}, and the home has less now: {} Nothing was claimed and nothing was changed. Is the home "
                             "mounted, and the right one? Put its newer state back; if that is lost for good, move this machine's local copy of '{}' away "
                             "(it may hold the only copy of those commits) and open again.",
                             name_, fold_.position().text, found, name_),
                 {}};
  }

  // Reads to within one batch of the tail, so that a healthy owner is out for milliseconds, not for a download.
  Result<> warm_up(Offset tail) {
    if (tail < fold_.position()) {
      // Never so in a sound home: what the fold holds was acknowledged by it. The home is asked for that place, and says in its own words what is wrong.
      const Offset before = fold_.position();
      auto read = read_on("warm");
      if (!read && read.error().outcome == Outcome::fence_unavailable) return tl::unexpected(lost(read.error().message));
      if (!read) return tl::unexpected(read.error());
      if (fold_.position() == before) return tl::unexpected(lost(fmt::format("its log ends at {}.", tail.text)));
    }
    for (unsigned pass = 0; pass < kMaxWarmPasses; ++pass) {
      bool near = false;
      while (!near && reached() < tail) {
        auto read = read_on("warm");
        if (!read) return tl::unexpected(read.error());
        near = *read;
      }
      if (near || pass + 1 == kMaxWarmPasses) return {};
      if (pass == 0 && reached() == tail) return {};  // it was warm already
      const auto stat = ask_([&] { return stream_.stat(); });
      if (!stat) return tl::unexpected(error_of(stat.error()));
      if (reached() >= stat->tail) return {};
      tail = stat->tail;
    }
    return {};
  }

  // Behind the last record that the fold was given. Its own position stays before the first part of an unfinished commit, which may be larger than any
  // read; reading from there would never see the last part.
  Offset reached() const { return std::max(cursor_, fold_.position()); }

  // Folds the next run of records. True: at the tail, or within one batch of it.
  Result<bool> read_on(std::string_view step) {
    auto read = ask_([&] { return stream_.read(reached(), kReadLimit); });
    if (!read && read.error().outcome == Outcome::gone && !started_over_) {
      started_over_ = true;  // trimmed, or another history: the fold's position is none of this stream any more
      cursor_ = {};
      if (auto again = fold_.start_over(); !again) return tl::unexpected(again.error());
      read = ask_([&] { return stream_.read(reached(), kReadLimit); });
    }
    if (!read) return tl::unexpected(error_of(read.error()));
    std::uint64_t bytes = 0;
    for (const core::Record& record : read->records) {
      bytes += record.payload.size();
      if (record.kind == core::RecordKind::claim && record.claim_id == writer_.claim_id() && record.epoch == writer_.epoch()) own_seen_ = true;
      else if (record.kind == core::RecordKind::claim && own_seen_) newer_ = core::owner_of(record);
      if (newer_) return true;  // nothing after it concerns us
      if (auto applied = fold_.apply(record); !applied) return tl::unexpected(applied.error());
      cursor_ = record.next;
    }
    read_bytes_ += bytes;
    if (options_.progress) options_.progress({step, read_bytes_, 0});
    at_tail_ = read->up_to_date;
    return read->up_to_date || (read->records.size() < kReadLimit.records && bytes < options_.max_batch_bytes);
  }

  Result<Opened> claim_and_read(const Seen& seen, core::Event event) {
    while (true) {
      if (options_.progress) options_.progress({"claim", 0, 0});
      auto claimed = drive(std::move(event));
      if (!claimed) return tl::unexpected(as_held(claimed.error(), seen));
      if (ONEPEN_FAILPOINT("owner.before_read")) return tl::unexpected(stopped());
      if (auto read = read_the_rest(); !read) return tl::unexpected(read.error());
      if (newer_) {
        return tl::unexpected(Error{Outcome::epoch_closed, core::fenced_message(name_, writer_.epoch(), writer_.last_in_stream(), newer_), newer_});
      }
      if (!own_seen_ && guard_on(Guard::takeover_reads_all) && guard_on(Guard::claim_read_back)) {
        event = core::ClaimNotFound{};
        continue;
      }
      if (ONEPEN_FAILPOINT("owner.before_settle")) return tl::unexpected(stopped());
      if (auto settled = fold_.settle(); !settled) return tl::unexpected(settled.error());
      tell(seen, *claimed);
      return Opened{std::move(writer_), claimed->requests};
    }
  }

  // Up to our own claim, and no newer one: only then is everything acknowledged before us in the fold (fence.md, "Takeover").
  Result<> read_the_rest() {
    own_seen_ = at_tail_ = false;
    newer_.reset();
    if (!guard_on(Guard::takeover_reads_all)) return {};
    while (!at_tail_ && !newer_) {
      if (auto read = read_on("read"); !read) return tl::unexpected(read.error());
    }
    return {};
  }

  // Runs the machine until the claim is decided.
  Result<core::ClaimReceipt> drive(core::Event event) {
    Instant gives_up = runtime_.now() + options_.open_within;
    while (true) {
      core::Effects effects = writer_.step(draw_moment(runtime_), std::move(event));
      if (effects.write_ahead) {
        if (auto written = write_ahead(*effects.write_ahead); !written) {
          event = core::ClaimNotWritten{written.error()};
          continue;
        }
      }
      if (effects.claimed) return *effects.claimed;
      if (effects.request) {
        event = carry_out(stream_, *effects.request);
        remember_trouble(event);
        continue;
      }
      ONEPEN_CHECK(effects.wake_at.has_value(), "a claim that is not decided waits for something");
      if (*effects.wake_at > gives_up) return tl::unexpected(no_answer());
      if (!pause_until(runtime_, *effects.wake_at)) return tl::unexpected(stopped());
      event = core::Tick{};
    }
  }

  Result<> write_ahead(const core::ClaimRequest& request) {
    if (ONEPEN_FAILPOINT("owner.before_write_ahead")) return tl::unexpected(stopped());
    auto written = claims_.write_ahead(request, request.incarnation.value_or(request.first_incarnation));
    if (ONEPEN_FAILPOINT("owner.after_write_ahead")) return tl::unexpected(stopped());
    return written;
  }

  Error stopped() const { return Error{Outcome::unavailable, fmt::format("the open of '{}' was stopped", name_), {}}; }

  // Why the home did not take the claim, in its own words: a full disk must be told as one.
  void remember_trouble(const core::Event& event) {
    if (const auto* claim = std::get_if<core::ClaimAnswered>(&event)) trouble_ = claim->answer ? "" : claim->answer.error().message;
    if (const auto* stat = std::get_if<core::StatAnswered>(&event)) trouble_ = stat->answer ? "" : stat->answer.error().message;
  }

  Error no_answer() const {
    const auto* claiming = std::get_if<core::Claiming>(&writer_.state());
    const bool unknown = claiming != nullptr && claiming->may_have_landed;
    return Error{unknown ? Outcome::unknown : Outcome::unavailable,
                 fmt::format("the claim of '{}' did not succeed within {} s{}. {}Open it again when the home works.", name_,
                             std::chrono::duration_cast<std::chrono::seconds>(options_.open_within).count(),
                             trouble_.empty() ? ": the home is out of reach" : "; the home's last answer: " + trouble_,
                             unknown ? "The claim may have landed; then the owner before it is refused from now on. " : "Nothing was claimed. "),
                 {}};
  }

  // A conditional claim that came too late: somebody lives.
  Error as_held(const Error& error, const Seen& seen) const {
    if (options_.takeover == TakeoverMode::always) return error;
    const onepen::Owner holder = error.current.value_or(seen ? core::owner_of(*seen) : onepen::Owner{});
    if (error.outcome == Outcome::epoch_closed) return held(name_, holder, "it claimed first");
    if (error.outcome == Outcome::base_mismatch) return held(name_, holder, "it wrote at the last moment");
    return error;
  }

  // One line for each change of owner, naming both sides.
  void tell(const Seen& seen, const core::ClaimReceipt& receipt) const {
    onepen::Owner us{writer_.token(), options_.info.name, options_.info.host, options_.endpoint, options_.info.pid};
    std::string from = "nobody owned it before";
    if (receipt.closed_epoch.value != 0) {
      onepen::Owner before{Token{{}, receipt.closed_epoch, {}}, {}, {}, {}, 0};
      if (seen && seen->epoch == receipt.closed_epoch) before = core::owner_of(*seen);
      from = fmt::format("taken from {}, closed at sequence {}", core::describe(before), receipt.closed_sequence.value);
    }
    options_.log(LogLevel::info, fmt::format("'{}' is now written by {}; {}", name_, core::describe(us), from));
  }

  Runtime& runtime_;
  core::Stream& stream_;
  ClaimLog& claims_;
  Fold& fold_;
  const Options& options_;
  Persistence ask_;
  const std::string name_;
  core::Writer writer_;
  Offset cursor_;  // see reached()
  bool started_over_ = false;
  bool own_seen_ = false;
  bool at_tail_ = false;
  std::uint64_t read_bytes_ = 0;
  std::optional<onepen::Owner> newer_;
  std::string trouble_;  // the message of the home's last refusal while claiming
};

}  // namespace

Result<Opened> open_stream(Runtime& runtime, core::Stream& stream, ClaimLog& claims, Fold& fold, const Options& options) {
  return Opening(runtime, stream, claims, fold, options).run();
}

}  // namespace onepen::owner
