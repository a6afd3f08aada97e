#include "owner/claim.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/failpoint.h"
#include "base/guard.h"
#include "owner/carry.h"

namespace onepen::owner {
namespace {

core::WriterConfig config_of(const std::string& stream, const Options& options) {
  core::WriterConfig config;
  config.stream = stream;
  config.info = options.info;
  config.liveness = options.liveness;
  config.create = options.create && !options.self_claim;
  if (options.self_claim) config.info.why = "self-claim";
  config.max_undecided = options.max_undecided;
  config.max_batch_bytes = options.max_batch_bytes;
  config.notice_within = options.notice_within;
  config.max_objects_per_second = options.max_objects_per_second;
  return config;
}

}  // namespace

Error stopped_open(const std::string& stream) { return Error{Outcome::unavailable, fmt::format("the open of '{}' was stopped", stream), {}}; }

Claim::Claim(Runtime& runtime, core::Stream& stream, ClaimLog& claims, Fold& fold, const Options& options, CatchUp& reading)
    : runtime_(runtime),
      stream_(stream),
      claims_(claims),
      fold_(fold),
      options_(options),
      reading_(reading),
      name_(stream.name().text()),
      writer_(config_of(name_, options)) {}

Result<Opened> Claim::run(const Seen& seen, const core::ClaimNow& now) {
  core::Event event = now;
  while (true) {
    if (options_.progress) options_.progress({"claim", 0, 0});
    auto claimed = drive(std::move(event));
    if (!claimed) return tl::unexpected(claimed.error());
    if (ONEPEN_FAILPOINT("owner.before_read")) return tl::unexpected(stopped_open(name_));
    if (auto read = read_the_rest(*claimed); !read) return tl::unexpected(read.error());
    if (newer_) {
      return tl::unexpected(Error{Outcome::epoch_closed, core::fenced_message(name_, writer_.epoch(), writer_.last_in_stream(), newer_), newer_});
    }
    if (!own_seen_ && guard_on(Guard::takeover_reads_all) && guard_on(Guard::claim_read_back)) {
      event = core::ClaimNotFound{};
      continue;
    }
    if (ONEPEN_FAILPOINT("owner.before_settle")) return tl::unexpected(stopped_open(name_));
    if (auto settled = fold_.settle(); !settled) return tl::unexpected(settled.error());
    tell(seen, *claimed);
    return Opened{std::move(writer_), claimed->requests};
  }
}

// Up to our own claim, and no newer one: only then is everything acknowledged before us in the fold (fence.md, "Takeover").
Result<> Claim::read_the_rest(const core::ClaimReceipt& claimed) {
  own_seen_ = false;
  newer_.reset();
  if (!guard_on(Guard::takeover_reads_all)) return {};
  if (claimed.record && claimed.claim_id == writer_.claim_id()) {
    const auto taken = reading_.take(claimed.follows, *claimed.record);
    if (!taken) return tl::unexpected(taken.error());
    own_seen_ = *taken;
    if (own_seen_) return {};
  }
  do {
    const auto restarts = reading_.restarts();
    if (auto read = reading_.read_on("read", [this](const core::Record& record) { return is_newer(record); }); !read) return tl::unexpected(read.error());
    if (reading_.restarts() != restarts) own_seen_ = false;  // it is read once more, and must be found once more
  } while (!newer_ && !reading_.at_tail());
  return {};
}

bool Claim::is_newer(const core::Record& record) {
  if (record.kind != core::RecordKind::claim) return false;
  if (record.claim_id == writer_.claim_id() && record.epoch == writer_.epoch()) own_seen_ = true;
  else if (own_seen_) newer_ = core::owner_of(record);  // nothing after it concerns us
  return newer_.has_value();
}

// Runs the machine until the claim is decided.
Result<core::ClaimReceipt> Claim::drive(core::Event event) {
  const Instant gives_up = runtime_.now() + options_.open_within;
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
    if (options_.interrupted != nullptr && options_.interrupted->load()) return tl::unexpected(no_answer());
    if (!pause_until(runtime_, *effects.wake_at)) return tl::unexpected(stopped_open(name_));
    event = core::Tick{};
  }
}

Result<> Claim::write_ahead(const core::ClaimRequest& request) {
  if (ONEPEN_FAILPOINT("owner.before_write_ahead")) return tl::unexpected(stopped_open(name_));
  auto written = claims_.write_ahead(request, request.incarnation.value_or(request.first_incarnation));
  if (ONEPEN_FAILPOINT("owner.after_write_ahead")) return tl::unexpected(stopped_open(name_));
  return written;
}

// Why the home did not take the claim, in its own words: a full disk must be told as one.
void Claim::remember_trouble(const core::Event& event) {
  if (const auto* claim = std::get_if<core::ClaimAnswered>(&event)) trouble_ = claim->answer ? "" : claim->answer.error().message;
  if (const auto* stat = std::get_if<core::StatAnswered>(&event)) trouble_ = stat->answer ? "" : stat->answer.error().message;
}

Error Claim::no_answer() const {
  const auto* claiming = std::get_if<core::Claiming>(&writer_.state());
  const bool unknown = claiming != nullptr && claiming->may_have_landed;
  return Error{unknown ? Outcome::unknown : Outcome::unavailable,
               fmt::format("the claim of '{}' did not succeed within {} s{}. {}Open it again when the home works.", name_,
                           std::chrono::duration_cast<std::chrono::seconds>(options_.open_within).count(),
                           trouble_.empty() ? ": the home is out of reach" : "; the home's last answer: " + trouble_,
                           unknown ? "The claim may have landed; then the owner before it is refused from now on. " : "Nothing was claimed. "),
               {}};
}

// One line for each change of owner, naming both sides.
void Claim::tell(const Seen& seen, const core::ClaimReceipt& receipt) const {
  onepen::Owner us{writer_.token(), options_.info.name, options_.info.host, options_.endpoint, options_.info.pid};
  std::string from = "nobody owned it before";
  if (receipt.closed_epoch.value != 0) {
    onepen::Owner before{Token{{}, receipt.closed_epoch, {}}, {}, {}, {}, 0};
    if (seen && seen->epoch == receipt.closed_epoch) before = core::owner_of(*seen);
    from = fmt::format("taken from {}, closed at sequence {}", core::describe(before), receipt.closed_sequence.value);
  }
  std::string cost;
  if (receipt.requests != 0)
    cost = fmt::format("; {} request{} to the home from the claim's first until ownership", receipt.requests, receipt.requests == 1 ? "" : "s");
  options_.log(LogLevel::info, fmt::format("'{}' is now written by {}; {}{}", name_, core::describe(us), from, cost));
}

}  // namespace onepen::owner
