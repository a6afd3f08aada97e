// What the parts of the conformance suite share: a process of a test, and short words.
#pragma once
#include <algorithm>

#include "tests/home/conformance.h"

namespace onepen::testing {
using core::Append;
using core::AppendBatch;
using core::Applied;
using core::ClaimReceipt;
using core::ClaimRequest;
using core::Record;
using core::RecordKind;
using core::Stream;

inline constexpr std::chrono::seconds kHang{60};  // a guard, never waited for

inline StreamName name(std::string_view text) { return StreamName::parse(text).value(); }
inline Bytes bytes(std::string_view text) { return to_bytes(as_bytes(text)); }

// One process of a test: its home, its session at the stream "app", what it claimed and wrote.
class Process {
 public:
  Process(Place& place, std::string who, std::string_view stream = "app")
      : place_(place), who_(std::move(who)), home_(place.open()), stream_(home_->stream(name(stream))) {}

  ClaimRequest request(std::uint64_t epoch) {
    ClaimRequest r;
    r.epoch = {epoch};
    r.claim_id = place_.runtime().draw<ClaimId>();
    r.attempt = place_.runtime().draw<PutId>();
    r.owner.name = who_;
    r.owner.host = "host-of-" + who_;
    r.owner.pid = 42;
    r.owner.why = "open";
    r.create = true;
    r.first_incarnation = place_.runtime().draw<Incarnation>();
    r.time_ms = 1000;
    return r;
  }
  core::Answer<ClaimReceipt> claim(const ClaimRequest& r) {
    auto answer = stream_->claim(r);
    if (answer) {
      receipt = *answer;
      next = {1};
    }
    return answer;
  }
  core::Answer<ClaimReceipt> claim(std::uint64_t epoch) { return claim(request(epoch)); }

  AppendBatch batch(std::vector<std::string> payloads) {
    AppendBatch b{receipt.incarnation, receipt.epoch, receipt.claim_id, next, place_.runtime().draw<PutId>(), 2000, {}};
    for (const auto& p : payloads) b.appends.push_back({RecordKind::data, bytes(p)});
    return b;
  }
  core::Answer<core::AppendReceipt> send(const AppendBatch& b) {
    auto answer = stream_->append(b);
    if (answer) next = {b.first.value + answer->offsets.size()};
    return answer;
  }
  core::Answer<core::AppendReceipt> append(std::vector<std::string> payloads) { return send(batch(std::move(payloads))); }

  Stream& stream() { return *stream_; }
  core::Home& home() { return *home_; }
  const std::string& who() const { return who_; }

  ClaimReceipt receipt;
  Sequence next{1};

 private:
  Place& place_;
  const std::string who_;
  std::unique_ptr<core::Home> home_;
  std::unique_ptr<Stream> stream_;
};

inline std::vector<Record> read_all(Stream& stream, Offset from = {}, core::ReadLimit limit = {}) {
  std::vector<Record> out;
  for (;;) {
    auto r = stream.read(from, limit);
    EXPECT_TRUE(r) << (r ? "" : r.error().message);
    if (!r) return out;
    EXPECT_FALSE(r->records.empty() && !r->up_to_date) << "a read that shows nothing must be at the end";
    if (r->records.empty() && !r->up_to_date) return out;
    from = r->next;
    for (auto& record : r->records) out.push_back(std::move(record));
    if (r->up_to_date) return out;
  }
}
inline std::vector<std::string> payloads(const std::vector<Record>& records) {
  std::vector<std::string> out;
  for (const auto& r : records)
    if (r.kind == RecordKind::data) out.emplace_back(as_text(r.payload));
  return out;
}
using Texts = std::vector<std::string>;

#define ASSERT_OK(answer) ASSERT_TRUE((answer).has_value()) << (answer).error().message
#define ASSERT_REFUSED(answer, what) \
  ASSERT_FALSE((answer).has_value()); \
  ASSERT_EQ((answer).error().outcome, Outcome::what) << (answer).error().message

inline core::OwnerToken token_of(const Process& p) { return {p.receipt.incarnation, p.receipt.epoch, p.receipt.claim_id}; }

// A snapshot whose parts are `parts`, at the tail or at `at`.
inline core::Answer<core::SnapshotInfo> put_snapshot(Process& p, const Texts& parts, std::optional<Offset> at = {}) {
  auto stat = p.stream().stat();
  if (!stat) return tl::unexpected(stat.error());
  auto writer = p.stream().begin_snapshot(token_of(p), at.value_or(stat->tail));
  if (!writer) return tl::unexpected(writer.error());
  for (const auto& part : parts)
    if (auto ok = (*writer)->add(as_bytes(part)); !ok) return tl::unexpected(ok.error());
  return (*writer)->finish(bytes("about"));
}

}  // namespace onepen::testing
