// How long nobody can write when the owner changes (engineering.md, "Benchmarks": unplanned, kill -9 to the first commit elsewhere <= term + 100 ms; planned
// handover, write gap <= 50 ms). Real processes with the public API, a directory as home: an owner that commits without a pause, and a warm standby that commits as soon as it owns.
//
//   unplanned    last commit of the owner, kill -9 ── silence of a term ── claim ── first commit of the standby          over_term = kill to first commit - term
//   planned      last commit of the owner ── drains, lets go ── claim ── first commit of the standby                     gap = last commit to first commit
//
// The limit beside them: one claim and one commit of a process that is not waiting for anybody (bench/takeover: claim_to_commit).
#include <onepen/follower.h>
#include <sqlite3.h>

#include <atomic>
#include <iostream>
#include <thread>

#include "child.h"
#include "opened.h"

namespace {
using namespace onepen;
using namespace onepen::bench;

struct Work {
  std::string role, home, cache, durability;
  std::int64_t term_ms = 0;
};

bool insert(sqlite3* db, std::int64_t number) {
  const std::string sql = "INSERT INTO t VALUES(" + std::to_string(number) + ", zeroblob(100))";
  return sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
}

OpenOptions options_of(const Work& work) {
  OpenOptions options;
  options.cache_root = work.cache;
  options.durability = work.durability == "local" ? Durability::local : Durability::replicated;
  options.term = Duration(work.term_ms);
  options.notice_within = Duration(50);
  return options;
}

// Commits until it is killed or refused, and says when it last did: a line every 50 commits, and one at the end.
int run_owner(const Work& work) {
  Opened opened("file://" + work.home, options_of(work));
  sqlite3* const db = opened.connection();
  if (sqlite3_exec(db, "CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, v)", nullptr, nullptr, nullptr) != SQLITE_OK) give_up(sqlite3_errmsg(db));
  std::int64_t number = 0, last = now_ns();
  for (; insert(db, ++number); last = now_ns()) {
    if (number % 50 == 0) std::cout << Json{{"commits", number}}.dump() << std::endl;
  }
  std::cout << Json{{"commits", number - 1}, {"last_ns", last}}.dump() << std::endl;
  std::string line;
  std::getline(std::cin, line);
  std::_Exit(0);
}

// Stands by; "take over" on its input makes it ask for a handover.
int run_standby(const Work& work) {
  auto home = Home::open("file://" + work.home);
  if (!home) give_up(home.error().message);
  FollowOptions options;
  options.cache_root = work.cache;
  options.takeover_when_owner_dead = true;
  options.term = Duration(work.term_ms);
  options.as_owner = options_of(work);
  std::atomic<bool> owns{false};
  options.on_take_over = [&] { owns.store(true); };
  auto follower = Follower::open(*home, "app", options);
  if (!follower) give_up(follower.error().message);
  std::cout << "{}" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  while (line != "take over" && !owns.load()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  auto database = std::move(*follower).take_over(options_of(work));
  if (!database) give_up(database.error().message);
  const std::int64_t owned = now_ns();
  auto connection = database->connect();
  if (!connection) give_up(connection.error().message);
  if (!insert(connection->get(), -1)) give_up(sqlite3_errmsg(connection->get()));
  std::cout << Json{{"owned_ns", owned}, {"first_ns", now_ns()}}.dump() << std::endl;
  std::getline(std::cin, line);
  return 0;
}

double ms(std::int64_t from, std::int64_t to) { return static_cast<double>(to - from) / 1e6; }

void round(const std::string& folder, const std::string& durability, bool planned, std::int64_t term_ms, Samples& out) {
  const Scratch here(folder);
  std::filesystem::create_directory(here / "home");
  const auto child = [&](const std::string& role, const std::string& cache) {
    return std::vector<std::string>{
        "--role", role, "--home", here / "home", "--cache", here / cache, "--term", std::to_string(planned ? 60'000 : term_ms), "--durability", durability};
  };
  Child owner(child("owner", "a"));
  (void)owner.line();
  Child standby(child("standby", "b"));
  (void)standby.line();
  for (int i = 0; i < 4; ++i) (void)owner.line();
  if (planned) {
    standby.say("take over");
    const std::int64_t first = standby.line()["first_ns"].get<std::int64_t>();
    Json line = owner.line();
    while (!line.contains("last_ns")) line = owner.line();
    out.add(ms(line["last_ns"].get<std::int64_t>(), first));
  } else {
    standby.say("wait");
    const std::int64_t killed = now_ns();
    owner.kill();
    out.add(ms(killed, standby.line()["first_ns"].get<std::int64_t>()) - static_cast<double>(term_ms));
  }
}

Json row(const Samples& samples) { return {{"p50_ms", samples.quantile(0.5)}, {"max_ms", samples.quantile(1)}, {"rounds", samples.count()}}; }

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  Work work;
  work.role = arguments.text("role", "");
  work.home = arguments.text("home", "");
  work.cache = arguments.text("cache", "");
  work.durability = arguments.text("durability", "replicated");
  work.term_ms = arguments.number("term", 1'000);
  const auto rounds = arguments.number("rounds", 21);
  const std::string folder = std::filesystem::absolute(arguments.text("folder", ".")).lexically_normal().string();
  arguments.finish();
  if (work.role == "owner") return run_owner(work);
  if (work.role == "standby") return run_standby(work);

  Json json{{"benchmark", "failover"}, {"machine", machine()}, {"load_before", load_average()}, {"term_ms", work.term_ms}};
  for (const char* const durability : {"replicated", "local"}) {
    Samples unplanned, planned;
    unplanned.begin_round();
    planned.begin_round();
    for (std::int64_t i = 0; i < rounds; ++i) {
      round(folder, durability, false, work.term_ms, unplanned);
      round(folder, durability, true, work.term_ms, planned);
    }
    json["unplanned_over_term"][durability] = row(unplanned);
    json["planned_gap"][durability] = row(planned);
  }
  json["load_after"] = load_average();
  std::cout << json.dump(1) << "\n";
  return 0;
}
