// How long one append is in the fence (engineering.md, "Benchmarks": at most 100 ns, no allocation, flat from 1 to 1,000,000 streams and producers).
// What is measured: apply() of the next sequenced append of a stream, the streams taken in turn or in an order no cache can guess.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "core/fence.h"

namespace {
using namespace onepen;
using namespace onepen::core;

constexpr Incarnation kHistory{1, 2};

// A full-period walk over 0..count-1 that jumps around.
struct Walk {
  std::size_t count, at = 0;
  std::size_t next() {
    at = (at + 7'368'787) % count;  // prime, so it visits every index
    return at;
  }
};

StreamState owned_stream() {
  StreamState state;
  benchmark::DoNotOptimize(apply(state, CreateCommand{kHistory, {}, false, {}, 0}));
  ClaimCommand claim;
  claim.epoch = Epoch{1};
  claim.claim_id = ClaimId{3, 4};
  claim.next = Position{0, 1};
  benchmark::DoNotOptimize(apply(state, claim));
  return state;
}

// `jumps`: in an order no cache can guess; then most of the time is the memory's.
void append_to_streams(benchmark::State& bench, bool jumps) {
  std::vector<StreamState> streams(static_cast<std::size_t>(bench.range(0)), owned_stream());
  Walk walk{streams.size()};
  AppendCommand c;
  c.producer = kOwnerProducer;
  c.incarnation = kHistory;
  c.epoch = Epoch{1};
  c.claim_id = ClaimId{3, 4};
  c.size = 256;
  std::size_t refused = 0;
  const auto append = [&](StreamState& state) {
    c.sequence = Sequence{state.owner.last.value + 1};
    c.digest = Digest{c.sequence->value};
    c.next = Position{0, state.tail.low + 1};
    const Decision d = apply(state, c);
    refused += d.outcome == Outcome::applied ? 0u : 1u;
    benchmark::DoNotOptimize(d);
  };
  for (StreamState& state : streams) append(state);  // the first receipt makes room for the next
  for (auto _ : bench) append(streams[jumps ? walk.next() : (walk.at = walk.at + 1 == streams.size() ? 0 : walk.at + 1)]);
  if (refused != 0) bench.SkipWithError("an append was refused");
  bench.SetItemsProcessed(bench.iterations());
}
BENCHMARK_CAPTURE(append_to_streams, in_turn, false)->Arg(1)->Arg(1'000)->Arg(100'000)->Arg(1'000'000);
BENCHMARK_CAPTURE(append_to_streams, jumping, true)->Arg(1)->Arg(1'000)->Arg(100'000)->Arg(1'000'000);

void refuse_old_epoch(benchmark::State& bench) {
  StreamState state = owned_stream();
  ClaimCommand claim;
  for (std::uint64_t epoch = 2; epoch <= static_cast<std::uint64_t>(bench.range(0)); ++epoch) {
    claim.epoch = Epoch{epoch};
    claim.claim_id = ClaimId{3, epoch};
    claim.next = Position{0, state.tail.low + 1};
    benchmark::DoNotOptimize(apply(state, claim));
  }
  AppendCommand c;
  c.producer = kOwnerProducer;
  c.incarnation = kHistory;
  c.epoch = Epoch{1};
  c.claim_id = ClaimId{3, 4};
  c.sequence = Sequence{1};
  c.size = 256;
  for (auto _ : bench) {
    const Decision d = apply(state, c);
    if (d.outcome != Outcome::epoch_closed) bench.SkipWithError("a closed epoch was not refused");
    benchmark::DoNotOptimize(d);
  }
}
BENCHMARK(refuse_old_epoch)->Arg(2)->Arg(60'000);

void append_of_plain_producers(benchmark::State& bench) {
  StreamState state;
  benchmark::DoNotOptimize(apply(state, CreateCommand{kHistory, {StreamKind::plain, {}, 0, 0}, false, {}, 0}));
  std::vector<std::string> names;
  std::vector<std::uint64_t> next(static_cast<std::size_t>(bench.range(0)), 0);
  for (std::size_t i = 0; i < next.size(); ++i) names.push_back("producer-" + std::to_string(i));
  AppendCommand c;
  c.epoch = Epoch{1};
  c.size = 256;
  const auto send = [&](std::size_t i) {
    c.producer = names[i];
    c.sequence = Sequence{next[i]++};
    c.next = Position{0, state.tail.low + 1};
    return apply(state, c);
  };
  for (std::size_t i = 0; i < names.size(); ++i) benchmark::DoNotOptimize(send(i));
  Walk walk{names.size()};
  for (auto _ : bench) benchmark::DoNotOptimize(send(walk.next()));
  bench.SetItemsProcessed(bench.iterations());
}
BENCHMARK(append_of_plain_producers)->Arg(1)->Arg(1'000)->Arg(100'000)->Arg(1'000'000);

}  // namespace

BENCHMARK_MAIN();
