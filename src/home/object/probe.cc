#include "home/object/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "base/checksum.h"

namespace onepen::home {
namespace {

constexpr std::size_t kAllOfFolder = static_cast<std::size_t>(-1);
constexpr int kSettleTries = 5;
constexpr std::string_view kProbeFolder = "@probe", kPassed = "passed-";
constexpr int kProbeVersion = 1;  // of what a remembered pass means; a higher one is proved anew

class Prober {
 public:
  Prober(Runtime& runtime, ObjectStore& store)
      : runtime_(runtime), store_(store), prefix_(fmt::format("{:016x}{:016x}", runtime.random_u64(), runtime.random_u64())) {}

  ProbeReport run(ProbeDepth depth);

 private:
  using Said = Result<std::string>;
  std::string name(std::string_view what) const { return fmt::format("{}-{}", prefix_, what); }
  std::string key(std::string_view what) const { return fmt::format("{}/{}", kProbeFolder, name(what)); }
  Said step(std::string step, const std::function<Said()>& what);

  Said reach();
  Said create_first();
  Said create_again();
  Said read_back(std::string_view what, std::string_view content);
  Said listed(const std::vector<std::string_view>& names);
  Said stale_create();
  Said empty_create();
  Said race();
  Said tidy();

  tl::unexpected<Error> cannot_fence(std::string_view evidence) const;
  tl::unexpected<Error> ignored(std::string_view what) const;
  Result<PutOutcome> settled(const std::string& at, ByteView content);

  Runtime& runtime_;
  ObjectStore& store_;
  const std::string prefix_;
  ProbeReport report_;
  std::vector<std::string> made_;  // keys to erase
};

tl::unexpected<Error> Prober::cannot_fence(std::string_view evidence) const {
  return tl::unexpected(
      Error{Outcome::invalid,
            fmt::format("The {} cannot keep two writers apart: {}. Nothing of Onepen's was written there; choose another place.", store_.describe(), evidence),
            {}});
}
tl::unexpected<Error> Prober::ignored(std::string_view what) const {
  return cannot_fence(fmt::format("{} was created twice with different contents, so it ignores the condition of a create (If-None-Match on a bucket)", what));
}

// A create, and, where its answer was lost, what the object says of it.
Result<PutOutcome> Prober::settled(const std::string& at, ByteView content) {
  for (int tries = 1;; ++tries) {
    auto put = store_.put_if_absent(at, content);
    if (!put || *put != PutOutcome::unknown) return put;
    auto there = store_.get(at);
    if (there) return std::equal(there->begin(), there->end(), content.begin(), content.end()) ? PutOutcome::created : PutOutcome::exists;
    if (there.error().outcome != Outcome::not_found) return tl::unexpected(there.error());
    if (tries == kSettleTries)
      return tl::unexpected(Error{Outcome::unavailable, fmt::format("The {} does not say whether it created {}.", store_.describe(), at), {}});
  }
}

// A listing first: it tells a bucket that is missing, and keys that are none, as what they are.
Prober::Said Prober::reach() {
  if (auto names = store_.list(std::string(kProbeFolder), "", 1); !names) return tl::unexpected(names.error());
  return "it answers";
}

Prober::Said Prober::create_first() {
  made_.push_back(key("first"));
  auto put = settled(key("first"), as_bytes("first"));
  if (!put) return tl::unexpected(put.error());
  if (*put == PutOutcome::exists) {  // our own create, answered twice on the way?
    auto there = store_.get(key("first"));
    if (!there) return tl::unexpected(there.error());
    if (as_text(*there) != "first") return cannot_fence(fmt::format("it says that {}, a name never used before, exists", key("first")));
  }
  return "created";
}

Prober::Said Prober::create_again() {
  auto put = settled(key("first"), as_bytes("second"));
  if (!put) return tl::unexpected(put.error());
  if (*put != PutOutcome::exists) return ignored(key("first"));
  return "refused: it exists";
}

Prober::Said Prober::read_back(std::string_view what, std::string_view content) {
  auto read = store_.get(key(what));
  if (!read && read.error().outcome != Outcome::not_found) return tl::unexpected(read.error());
  if (!read || as_text(*read) != content) return cannot_fence(fmt::format("{} does not read back as it was created", key(what)));
  return "reads back as it was created";
}

Prober::Said Prober::listed(const std::vector<std::string_view>& names) {
  auto there = store_.list(std::string(kProbeFolder), "", kAllOfFolder);
  if (!there) return tl::unexpected(there.error());
  for (const auto what : names)
    if (std::find(there->begin(), there->end(), name(what)) == there->end())
      return cannot_fence(fmt::format("{} was created and its folder does not list it", key(what)));
  return fmt::format("{} of {} objects are listed", names.size(), names.size());
}

// What a writer that was held for a while does: it creates what somebody else created, and changed, long ago.
Prober::Said Prober::stale_create() {
  if (auto ok = store_.put(key("first"), as_bytes("newer")); !ok) return tl::unexpected(ok.error());
  auto put = settled(key("first"), as_bytes("stale"));
  if (!put) return tl::unexpected(put.error());
  if (*put != PutOutcome::exists) return ignored(key("first"));
  if (auto read = read_back("first", "newer"); !read) return read;
  return "refused, and the newer content stays";
}

Prober::Said Prober::empty_create() {
  made_.push_back(key("empty"));
  auto put = settled(key("empty"), {});
  if (!put) return tl::unexpected(put.error());
  put = store_.put_if_absent(key("empty"), as_bytes("full"));  // after an empty one: some stores take "no bytes" for "no object"
  if (put && *put == PutOutcome::unknown) put = settled(key("empty"), as_bytes("full"));
  if (!put) return tl::unexpected(put.error());
  if (*put != PutOutcome::exists) return ignored(key("empty"));
  return read_back("empty", "");
}

Prober::Said Prober::race() {
  made_.push_back(key("race"));
  std::vector<Result<PutOutcome>> answers(kProbeRacers, PutOutcome::unknown);
  {
    std::vector<std::unique_ptr<Thread>> racers;  // destroyed: ended
    for (int i = 0; i < kProbeRacers; ++i)
      racers.push_back(runtime_.spawn("probe", [this, &answers, i] {
        auto& answer = answers[static_cast<std::size_t>(i)];
        answer = store_.put_if_absent(key("race"), as_bytes(fmt::format("racer {}", i)));
      }));
  }
  auto there = store_.get(key("race"));
  if (!there && there.error().outcome == Outcome::not_found) return cannot_fence(fmt::format("{} creates of one name left nothing", kProbeRacers));
  if (!there) return tl::unexpected(there.error());
  int refusals = 0;
  for (int i = 0; i < kProbeRacers; ++i) {
    const auto& answer = answers[static_cast<std::size_t>(i)];
    refusals += answer && *answer == PutOutcome::exists ? 1 : 0;
    if (!answer || *answer != PutOutcome::created) continue;  // what each would have written differs: only one of them can be there
    if (as_text(*there) != fmt::format("racer {}", i))
      return cannot_fence(
          fmt::format("of {} creates of {} at once it told racer {} that it had won, and holds '{}'", kProbeRacers, key("race"), i, as_text(*there)));
  }
  return fmt::format("{} at once: one winner, {} refused{}", kProbeRacers, refusals, refusals == kProbeRacers - 1 ? "" : ", the others without an answer");
}

Prober::Said Prober::tidy() {
  for (const auto& at : made_)
    if (auto gone = store_.erase(at); !gone) return tl::unexpected(gone.error());
  return "erased";
}

Prober::Said Prober::step(std::string step, const std::function<Said()>& what) {
  auto said = what();
  report_.steps.push_back({std::move(step), said ? *said : said.error().message, said.has_value()});
  return said;
}

ProbeReport Prober::run(ProbeDepth depth) {
  struct Named {
    const char* name;
    std::function<Said()> what;
    bool only_in_full;
  };
  const std::vector<Named> steps{
      {"reach", [this] { return reach(); }, true},
      {"create", [this] { return create_first(); }, false},
      {"create again", [this] { return create_again(); }, false},
      {"read after write", [this] { return read_back("first", "first"); }, false},
      {"list after write", [this] { return listed({"first"}); }, false},
      {"stale create", [this] { return stale_create(); }, true},
      {"empty create", [this] { return empty_create(); }, true},
      {"race", [this] { return race(); }, true},
      {"list again", [this] { return listed({"first", "empty", "race"}); }, true},
  };
  report_.place = store_.describe();
  for (const auto& one : steps) {
    if (one.only_in_full && depth == ProbeDepth::brief) continue;
    if (auto said = step(one.name, one.what); !said) {
      report_.verdict = tl::unexpected(said.error());
      break;
    }
  }
  // The empty folder stays in a directory: removing it would take it from under another opener's probe.
  auto tidied = step("erase", [this] { return tidy(); });
  if (report_.verdict && !tidied) report_.verdict = tl::unexpected(tidied.error());
  return std::move(report_);
}

}  // namespace

ProbeReport run_probe(Runtime& runtime, ObjectStore& store, ProbeDepth depth) { return Prober(runtime, store).run(depth); }

Result<> probe_can_fence(Runtime& runtime, ObjectStore& store) { return run_probe(runtime, store, ProbeDepth::brief).verdict; }

// Asked by a LIST: a missing bucket is told by it as what it is, while a GET cannot (s3_store.h).
Result<> probe_once(Runtime& runtime, ObjectStore& store) {
  const std::string folder(kProbeFolder), passed = fmt::format("onepen probe {}: {}\n", kProbeVersion, store.describe());
  const std::string remembered = fmt::format("{}{:016x}", kPassed, xxh3(as_bytes(passed)));
  auto names = store.list(folder, std::string(kPassed), kAllOfFolder);
  if (!names) return tl::unexpected(names.error());
  if (std::find(names->begin(), names->end(), remembered) != names->end()) return {};
  auto report = run_probe(runtime, store, ProbeDepth::full);
  if (!report.verdict) return report.verdict;
  return store.put(folder + "/" + remembered, as_bytes(passed));
}

}  // namespace onepen::home
