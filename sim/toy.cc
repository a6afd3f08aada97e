#include "sim/toy.h"

namespace onepen::sim {

Result<> ToyFold::apply(const core::Record& record) {
  if (!process_.dead && record.next <= state_.position) {
    history_.violated("I9", process_.name + " was given a record at or before its position '" + state_.position.text + "'");
  }
  state_.position = record.next;
  ++state_.count;
  state_.sum = chain(state_.sum, identity(record));
  return {};
}

Result<> ToyFold::start_over() {
  history_.world.note("fold.start_over");
  state_ = CopyState{};
  return {};
}

Result<> ToyFold::settle() {
  if (process_.dead) return {};
  history_.world.note("fold.settled", state_.position.text, state_.count, state_.sum);
  history_.folds.push_back(FoldSeen{process_.name, state_.count, state_.sum});
  copy_.settled = state_;
  return {};
}

Result<> RecordingClaimLog::write_ahead(const core::ClaimRequest& request, const Incarnation& incarnation) {
  auto written = under_->write_ahead(request, incarnation);
  if (written && !process_.dead) history_.written_ahead.insert(request.claim_id);
  return written;
}

Bytes toy_payload(std::uint64_t id, std::uint32_t part, std::uint32_t parts, std::size_t filler) {
  Bytes bytes;
  ByteWriter w(bytes);
  w.u(id);
  w.u(part);
  w.u(parts);
  bytes.resize(bytes.size() + filler, std::byte{0x2e});
  return bytes;
}

}  // namespace onepen::sim
