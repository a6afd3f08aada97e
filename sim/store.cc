#include "sim/store.h"

#include <fmt/format.h>

#include "base/check.h"

namespace onepen::sim {
namespace {
constexpr std::int64_t kFastestMs = 1, kUsualMs = 30;
constexpr Nanos kGiveUp = 5 * kSecond;  // a request without an answer

tl::unexpected<Error> failed(Outcome outcome, std::string_view what, const std::string& key) {
  return tl::unexpected(Error{outcome, fmt::format("The simulated bucket {} {}.", what, key), {}});
}
}  // namespace

bool Bucket::create(const std::string& key, ByteView bytes) {
  const bool made = objects.emplace(key, to_bytes(bytes)).second;
  world_.note(made ? "bucket.created" : "bucket.taken", key, bytes.size());
  return made;
}

bool SimStore::travel() {
  world_.point(process_);
  const bool slow = world_.random().chance(bucket_.faults.slow);
  return world_.sleep((slow ? world_.random().between(kUsualMs, bucket_.faults.slow_ms) : world_.random().between(kFastestMs, kUsualMs)) * kMilli *
                      process_.link);
}

Result<> SimStore::asked(const std::string& key) {
  if (process_.dead) world_.yield();
  if (process_.dead || !travel()) return failed(Outcome::unavailable, "lost its caller at", key);
  if (world_.random().chance(bucket_.faults.unreadable)) {
    world_.note("bucket.unreadable", key);
    return failed(Outcome::unavailable, "did not answer about", key);
  }
  return {};
}

Result<Bytes> SimStore::get(const std::string& key) {
  if (auto ok = asked(key); !ok) return tl::unexpected(ok.error());
  const auto found = bucket_.objects.find(key);
  const bool there = found != bucket_.objects.end();
  Bytes bytes = there ? found->second : Bytes();
  world_.note("bucket.get", key, there);
  if (!travel()) return failed(Outcome::unavailable, "lost its caller at", key);
  if (!there) return failed(Outcome::not_found, "has no", key);
  return bytes;
}

Result<Bytes> SimStore::get_range(const std::string& key, std::uint64_t from, std::uint64_t size) {
  auto whole = get(key);
  if (!whole) return whole;
  const std::size_t begin = std::min<std::size_t>(from, whole->size()), end = std::min<std::size_t>(begin + size, whole->size());
  return Bytes(whole->begin() + static_cast<std::ptrdiff_t>(begin), whole->begin() + static_cast<std::ptrdiff_t>(end));
}

void SimStore::send_late(const std::string& key, ByteView bytes, Nanos delay, bool overwrite) {
  ++bucket_.on_their_way;
  world_.after(delay, [&bucket = bucket_, key, copy = to_bytes(bytes), overwrite] {
    --bucket.on_their_way;
    bucket.world().note("bucket.late_arrives", key);
    if (overwrite) {
      bucket.objects[key] = copy;
    } else {
      const bool made = bucket.create(key, copy);
      if (bucket.on_late) bucket.on_late(made);
    }
  });
}

Result<home::PutOutcome> SimStore::put_if_absent(const std::string& key, ByteView bytes) {
  using home::PutOutcome;
  if (process_.dead) return world_.yield(), failed(Outcome::unavailable, "lost its caller at", key);
  ++process_.writes, ++process_.home_writes;
  BucketFaults& faults = bucket_.faults;
  Random& random = world_.random();
  if (random.chance(faults.refused)) {
    world_.note("bucket.refused", key);
    travel();
    return failed(Outcome::unavailable, "refused", key);
  }
  if (random.chance(faults.lost_request) || random.chance(faults.late)) {
    if (random.chance(500)) send_late(key, bytes, random.between(1, faults.late_ms) * kMilli, false);
    world_.note("bucket.no_answer", key);
    world_.sleep(random.between(kUsualMs, kGiveUp / kMilli) * kMilli);
    return PutOutcome::unknown;
  }
  // On its way: the sender's death does not take it back.
  if (!travel()) {
    if (random.chance(500)) send_late(key, bytes, random.between(1, faults.late_ms) * kMilli, false);
    return PutOutcome::unknown;
  }
  bool made = bucket_.create(key, bytes);
  if (!made && bucket_.on_own_found && bucket_.objects.at(key) == to_bytes(bytes)) bucket_.on_own_found();
  if (random.chance(faults.twice)) made = bucket_.create(key, bytes);  // the second delivery's answer is the one that comes back
  if (random.chance(faults.lost_answer)) {
    world_.note("bucket.answer_lost", key, made);
    world_.sleep(random.between(kUsualMs, kGiveUp / kMilli) * kMilli);
    return PutOutcome::unknown;
  }
  if (!travel()) return PutOutcome::unknown;
  return made ? PutOutcome::created : PutOutcome::exists;
}

Result<> SimStore::put(const std::string& key, ByteView bytes) {
  ++process_.writes, ++process_.home_writes;
  if (auto ok = asked(key); !ok) return ok;
  if (world_.random().chance(bucket_.faults.late)) send_late(key, bytes, world_.random().between(1, bucket_.faults.late_ms) * kMilli, true);
  bucket_.objects[key] = to_bytes(bytes);
  world_.note("bucket.put", key, bytes.size());
  if (!travel()) return failed(Outcome::unavailable, "lost its caller at", key);
  return {};
}

Result<std::vector<std::string>> SimStore::list(const std::string& folder, const std::string& after, std::size_t limit) {
  if (auto ok = asked(folder); !ok) return tl::unexpected(ok.error());
  const std::string prefix = folder.empty() ? "" : folder + "/";
  std::vector<std::string> names;
  for (auto it = bucket_.objects.lower_bound(prefix); it != bucket_.objects.end() && it->first.starts_with(prefix) && names.size() < limit; ++it) {
    std::string name = it->first.substr(prefix.size());
    name = name.substr(0, name.find('/'));  // a folder below counts as one name
    if (name > after && (names.empty() || names.back() != name)) names.push_back(std::move(name));
  }
  world_.note("bucket.list", folder, names.size());
  if (!travel()) return failed(Outcome::unavailable, "lost its caller at", folder);
  return names;
}

Result<> SimStore::erase(const std::string& key) {
  ++process_.writes, ++process_.home_writes;
  if (auto ok = asked(key); !ok) return ok;
  world_.note("bucket.erase", key, bucket_.objects.erase(key));
  return {};
}

}  // namespace onepen::sim
