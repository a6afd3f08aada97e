#include "sim/history.h"

#include <fmt/format.h>

#include "base/checksum.h"

namespace onepen::sim {

std::uint64_t identity(const core::Record& r) {
  Bytes bytes;
  ByteWriter w(bytes);
  w.u(static_cast<std::uint8_t>(r.kind));
  for (std::uint64_t x : {r.incarnation.hi, r.incarnation.lo, r.epoch.value, r.claim_id.hi, r.claim_id.lo, r.sequence.value}) w.u(x);
  w.text(r.next.text);
  w.raw(r.payload);
  return xxh3(bytes);
}

std::uint64_t chain(std::uint64_t before, std::uint64_t id) { return (before ^ id) * 0x9fb21c651e98df25ull + 1; }

void History::violated(std::string_view rule, const std::string& text) {
  violations.push_back(fmt::format("{}: {}", rule, text));
  world.note("VIOLATION", violations.back());
}

void History::saw_epoch(const std::string& who, const Incarnation& incarnation, Epoch epoch, const ClaimId& claim_id) {
  if (epoch.value == 0 || rolled_back) return;
  const auto [at, fresh] = epochs.emplace(std::pair(incarnation, epoch), claim_id);
  if (!fresh && at->second != claim_id) {
    violated("I5", fmt::format("epoch {} belongs to claim {} and, as {} saw it, to {}", epoch.value, to_text(at->second), who, to_text(claim_id)));
  }
}

void History::saw_record(const std::string& who, const core::Record& record) {
  if (on_record) on_record(record);
  if (rolled_back) return;
  const std::uint64_t id = identity(record);
  const std::string text = fmt::format("epoch {} sequence {}", record.epoch.value, record.sequence.value);
  const auto [at, fresh] = records.emplace(record.next.text, id);
  if (fresh) {
    records_text.emplace(record.next.text, text);
  } else if (at->second != id) {
    violated("I9", fmt::format("{} read {} before offset {}, another reader {}", who, text, record.next.text, records_text[record.next.text]));
  }
  saw_epoch(who, record.incarnation, record.epoch, record.claim_id);
  if (record.kind == core::RecordKind::claim) claims_read.insert(record.claim_id);
}

void Final::build() {
  std::uint64_t sum = 0;
  sums.push_back(sum);
  for (std::size_t i = 0; i < records.size(); ++i) {
    sum = chain(sum, identity(records[i]));
    sums.push_back(sum);
    by_offset[records[i].next.text] = i;
    if (records[i].kind == core::RecordKind::data) by_digest[digest_of(records[i].payload).value].push_back(i);
  }
}

}  // namespace onepen::sim
