// Bytes become commands for the fence. Whatever they are: no crash, and after every command what fence.md promises whoever asks.
//
// First byte odd: the rest is a saved state (as it comes, or sealed with a right checksum): if it is believed, it comes back as the same bytes.
// Else every command takes a handful of bytes. Numbers are drawn small, so that commands meet each other.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "base/checksum.h"
#include "core/fence.h"
#include "core/fence_codec.h"
#include "core/fence_view.h"

namespace {
using namespace onepen;
using namespace onepen::core;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

struct Source {
  const std::uint8_t* at;
  const std::uint8_t* end;
  std::uint8_t byte() { return at == end ? std::uint8_t{0} : *at++; }
  bool flag() { return (byte() & 1) != 0; }
  // Mostly small; 0xff is the largest allowed number, 0xfe one more.
  std::uint64_t number() {
    const std::uint8_t b = byte();
    if (b == 0xff) return kMaxWireNumber;
    if (b == 0xfe) return kMaxWireNumber + 1;
    return b % 8;
  }
  template <class Id>
  Id id() {
    const std::uint8_t b = byte();
    return b % 5 == 0 ? Id{} : Id{1, b % 5u};
  }
  std::int64_t time() { return byte() == 0xff ? kProducerIdleMs * 2 : byte(); }
};

struct Machine {
  StreamState state;

  template <class C>
  void step(const C& command) {
    const StreamState before = state;
    const Decision d = apply(state, command);
    require(state.time_ms >= before.time_ms, "state time fell");
    require(state.config.kind == StreamKind::plain || state.owner.epoch >= before.owner.epoch || before.presence == Presence::absent,
            "the epoch floor fell (I1, I5)");
    require(d.tail == state.tail && d.incarnation == state.incarnation, "the answer tells another state");
    if (d.outcome == Outcome::applied && state.incarnation == before.incarnation) require(state.tail >= before.tail, "the tail fell");
    if (!d.ok()) {
      require(state.tail == before.tail && state.owner == before.owner && state.incarnation == before.incarnation && state.closed == before.closed &&
                  state.presence == before.presence && state.stored_bytes == before.stored_bytes,
              "a refusal changed something (I4)");
      require(!refusal_of("app", state, d, Epoch{1}).message.empty(), "a refusal without a sentence");
    }
    if (d.outcome == Outcome::epoch_closed && d.applied == Applied::yes) require(!d.changed, "a closed epoch changed something (I2)");
    if constexpr (std::is_same_v<C, AppendCommand> || std::is_same_v<C, ClaimCommand>) {
      // The same request again is the same answer: never applied twice (I3). Plain appends without a producer have no identity.
      const bool has_identity = std::is_same_v<C, ClaimCommand> || !command.producer.empty();
      if (d.outcome == Outcome::applied && has_identity) {
        const Decision again = apply(state, command);
        require(again.outcome == Outcome::duplicate && again.receipt == d.receipt, "a resend was not a duplicate with the first receipt (I3)");
      }
    }
    if (state.config.kind == StreamKind::fence_required && state.presence == Presence::present && d.outcome == Outcome::applied) {
      require(!before.suspect || std::is_same_v<C, AdminCommand> || std::is_same_v<C, SweepCommand>, "a suspect stream changed");
    }
  }

  void draw(Source& in) {
    switch (in.byte() % 8) {
      case 0: {
        CreateCommand c;
        c.incarnation = in.id<Incarnation>();
        c.config.kind = in.flag() ? StreamKind::plain : StreamKind::fence_required;
        c.config.max_append_bytes = in.number();
        c.config.max_stream_bytes = in.number();
        c.closed = in.byte() == 1;
        c.tail = Position{0, state.tail.low};
        c.time_ms = in.time();
        return step(c);
      }
      case 1: {
        ClaimCommand c;
        if (in.flag()) c.producer = "other";
        if (in.flag()) c.incarnation = in.id<Incarnation>();
        c.epoch = Epoch{in.number()};
        c.claim_id = in.id<ClaimId>();
        if (in.flag()) c.over = in.id<ClaimId>();
        if (in.flag()) c.if_tail = state.tail;
        c.digest = Digest{in.number()};
        c.next = Position{0, state.tail.low + in.number() % 8};
        c.time_ms = in.time();
        return step(c);
      }
      case 2: {
        ChangeCommand c{static_cast<Change>(in.byte() % 6)};
        c.producer = in.flag() ? kOwnerProducer : std::string_view();
        c.incarnation = in.id<Incarnation>();
        if (in.flag()) c.epoch = Epoch{in.number()};
        c.claim_id = in.id<ClaimId>();
        c.at = Position{0, in.number()};
        c.freed_bytes = in.number();
        if (c.change == Change::configure) c.config = state.config;
        c.keep_for_forks = in.byte() == 1;
        return step(c);
      }
      case 3: {
        AdminCommand c{static_cast<AdminAct>(in.byte() % 5), in.id<Incarnation>(), state.tail};
        c.next_incarnation = in.id<Incarnation>();
        c.next_tail = Position{0, state.tail.low - (state.tail.low == 0 ? 0 : in.number() % 2)};
        c.floor = Epoch{in.number()};
        return step(c);
      }
      case 4: return step(SweepCommand{in.time()});
      default: return append(in);
    }
  }

  void append(Source& in) {
    AppendCommand c;
    c.kind = static_cast<RecordKind>(in.byte() % 6);
    // Three whole forms, and one in which anything may be missing.
    static constexpr std::uint8_t kForms[] = {1 | 8 | 16, 1 | 2 | 8 | 16 | 32, 1 | 2 | 8 | 32 | 64 | 128};
    const std::uint8_t choice = in.byte();
    const std::uint8_t form = choice % 4 == 3 ? in.byte() : kForms[choice % 4];
    c.incarnation = state.incarnation;
    if (form & 1) c.producer = form & 2 ? kOwnerProducer : std::string_view("p");
    if (choice % 4 == 3) c.incarnation = form & 4 ? std::optional(in.id<Incarnation>()) : std::nullopt;
    if (form & 8) c.epoch = Epoch{in.number()};
    if (form & 16) c.sequence = Sequence{in.number()};
    if (form & 32) c.claim_id = in.id<ClaimId>();
    if (form & 64) c.commit = in.id<CommitId>();
    if (form & 128) c.if_tail = in.flag() ? state.tail : Position{0, in.number()};
    c.digest = Digest{in.number()};
    c.size = in.number();
    c.next = Position{0, state.tail.low + in.number() % 8};
    c.time_ms = in.time();
    c.close = in.byte() == 1;
    if (in.byte() == 1) c.content_type = "text/plain";
    if (in.byte() == 1) c.stream_seq = "1";
    if (in.byte() == 1) c.namespace_fence = static_cast<NamespaceFence>(in.byte() % 5);
    step(c);
  }

  void restart() {
    const Bytes bytes = encode(state);
    auto back = decode_stream_state(bytes);
    require(back.has_value() && *back == state && encode(*back) == bytes, "a state did not survive being saved");
  }
};

// A saved state: as it comes, or sealed (with the header and checksum that make its content believed, which no mutation would find).
void decode_only(ByteView content, bool sealed) {
  Bytes bytes = to_bytes(content);
  if (sealed) {
    bytes = encode(StreamState{});
    bytes.resize(6);  // magic and version
    ByteWriter out(bytes);
    out.u(static_cast<std::uint32_t>(content.size()));
    out.raw(content);
    out.u(xxh3(bytes));
  }
  auto state = decode_stream_state(bytes);
  if (!state) return;
  require(encode(*state) == bytes, "two spellings of one state");
  // A believed state may be a nonsensical one; then the answers are too, but nothing may crash.
  AppendCommand c;
  c.producer = kOwnerProducer;
  c.incarnation = state->incarnation;
  c.epoch = state->owner.epoch;
  c.claim_id = state->owner.claim_id;
  c.sequence = Sequence{1};
  c.size = 1;
  c.next = Position{state->tail.high, state->tail.low + 1};
  static_cast<void>(apply(*state, c));
  c.epoch = Epoch{0};
  static_cast<void>(apply(*state, c));
  static_cast<void>(apply(*state, ClaimCommand{kOwnerProducer, {}, Epoch{state->owner.epoch.value + 1}, ClaimId{1, 1}, {}, {}, {}, 0, c.next, 0, {}}));
  static_cast<void>(stat_of(*state));
  static_cast<void>(encode(*state));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  Machine machine;
  if (data[0] & 1) {
    decode_only(std::as_bytes(std::span(data + 1, size - 1)), (data[0] & 2) != 0);
    return 0;
  }
  Source in{data + 1, data + size};
  while (in.at != in.end) machine.draw(in);
  machine.restart();
  return 0;
}
