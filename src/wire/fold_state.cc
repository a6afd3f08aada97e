#include "wire/fold_state.h"

#include "core/fence_codec.h"
#include "wire/log_object.h"
#include "wire/ready_record.h"

namespace onepen::wire {

void encode(ByteWriter& out, const FoldState& f) {
  const Bytes state = core::encode(f.state);
  out.u<std::uint32_t>(static_cast<std::uint32_t>(state.size()));
  out.raw(state);
  for (auto number : {f.next_id, f.prev_id, f.prev_checksum, f.claim_at}) out.u<std::uint64_t>(number);
  out.u<std::uint32_t>(f.ordinal);
  for (auto number : {f.content_from, f.log_bytes}) out.u<std::uint64_t>(number);
  out.text(f.endpoint);
  out.u<std::uint8_t>(f.released ? 1 : 0);
  out.u<std::uint64_t>(static_cast<std::uint64_t>(f.removed_ms));
  out.text(f.suspect);
}

FoldState decode_fold_state(ByteReader& in, std::string& wrong) {
  FoldState f;
  const auto size = in.u<std::uint32_t>();
  if (size > in.left()) {
    wrong = "the state of its fold is cut short";
    return f;
  }
  auto state = core::decode_stream_state(in.raw(size));
  if (!state) {
    wrong = state.error().message;
    return f;
  }
  f.state = std::move(*state);
  for (auto* number : {&f.next_id, &f.prev_id, &f.prev_checksum, &f.claim_at}) *number = in.u<std::uint64_t>();
  f.ordinal = in.u<std::uint32_t>();
  for (auto* number : {&f.content_from, &f.log_bytes}) *number = in.u<std::uint64_t>();
  f.endpoint = in.text(kMaxEndpointBytes);
  const auto released = in.u<std::uint8_t>();
  f.released = released == 1;
  f.removed_ms = static_cast<std::int64_t>(in.u<std::uint64_t>());
  f.suspect = in.text(2 * kMaxEvidenceBytes);
  if (in.failed()) wrong = "the state of its fold is cut short";
  else if (released > 1) wrong = "a flag of its fold is neither 0 nor 1";
  else if (f.next_id == 0 || f.next_id > kMaxWireNumber || f.prev_id >= f.next_id || f.claim_at >= f.next_id || f.content_from >= f.next_id)
    wrong = "the state of its fold points behind its end";
  else if (f.ordinal > kMaxOrdinal) wrong = "the ordinal of its history is out of range";
  return f;
}

}  // namespace onepen::wire
