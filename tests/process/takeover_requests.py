"""What a takeover with a warm copy costs in a bucket, counted on the wire: from opening until its first COMMIT is acknowledged, after a short log and a long one.

    takeover_requests.py radosgw|azurite

Counted by the fault proxy before the real server, which records every request. Who takes over is asked as well: onepen_status() and the line of the log tell the
same numbers. The count can fail: one from an empty cache, beside it, is larger and grows with the log.
"""

import re
import sys

import bucket_support
from bucket_support import LOG, FaultProxy
from harness import QUICK, Worker, check, main, uri

WHERE = sys.argv[1]
SHORT, LONG = 8, 60 if QUICK else 240  # commits in the log
SINCE = 3                              # commits that somebody else made since the copy was warm

# docs/operating/buckets.md, "What it costs". To ownership: the marks; the object where the copy stands, and the claim it was made under; LIST of what came
# since; the marks; the remembered proof; the claim; the marks. And one GET for each object that came since.
MOST_OPENING = 8
MOST_OF_CLAIM = 2   # of them the claim's own: PUT, mark (homes.md: LIST, GET, PUT, mark)
MOST_TO_COMMIT = 2  # then: `ready`, the commit


def short(entry):
    return f"{entry['method']} {entry['target'].partition('prefix=')[2] or entry['target']} {entry['status']}"


def takes_over(root, proxy, home, port, cache, name):
    """Opens and commits once; the requests up to ownership, and those of the owner's thread up to the acknowledged COMMIT. The caretaker's looks, which run
    beside, begin with ownership and are left out."""
    start = proxy.here()
    worker = Worker(root, env={"ONEPEN_LOG": "stderr"})
    worker.open(uri("app", home.through(port), cache))
    worker.sql("INSERT INTO t VALUES(?, 'first after the takeover')", -len(home.ids()))
    log = [entry for entry in proxy.log(start) if entry["client"] == name]
    shown = [short(entry) for entry in log]
    puts = [n for n, entry in enumerate(log) if entry["method"] == "PUT" and LOG in entry["target"] and entry["status"] in (200, 201)]
    check(len(puts) == 3, "the claim, `ready` and the commit are three objects", *shown)
    marks = [n for n, entry in enumerate(log) if puts[0] < n and "@mark" in entry["target"]]
    check(marks, "no look at the mark after the claim", *shown)
    opening = log[:marks[0] + 1]
    claim = log[max(n for n, entry in enumerate(opening) if "@probe" in entry["target"]) + 1:marks[0] + 1]
    status = worker.status()
    check(status["role"] == "owner", "it must be the owner", status)
    check(status["claim_requests"] == len(claim), "onepen_status() says what the claim cost, as the wire does", status, *shown)
    check(status["opening_requests"] == len(opening), "onepen_status() says what the opening cost, as the wire does", status, *shown)
    by_kind = status["requests"]
    check(set(by_kind) == {"get", "list", "create", "put", "erase"}, "requests by kind", by_kind)
    created = [entry for entry in log if entry["if_none_match"] and entry["method"] == "PUT"]
    check(by_kind["create"] == len(created), "onepen_status() counts creates as the wire does", by_kind, *shown)
    check(by_kind["get"] >= sum(LOG in entry["target"] and entry["method"] == "GET" and "prefix=" not in entry["target"] for entry in log), "and gets", by_kind, *shown)
    told = re.search(r"'app' is now written by .*; (\d+) requests? to the home from the claim's first until ownership", worker.errors())
    check(told and int(told[1]) == len(claim), "the line of the takeover says what the claim cost", worker.errors(), *shown)
    return worker, opening, claim, len(puts) - 1


def story(root, proxy, commits):
    """(requests up to ownership beyond the objects it was behind, of the claim, then up to the commit; those of an empty cache up to ownership)"""
    home = bucket_support.new_home(root)
    names = [root.next("machine") for _ in range(3)]
    ports = {name: proxy.listen(name) for name in names}
    caches = {name: root.cache() for name in names}
    warm, other, empty = names
    first = Worker(root)
    first.open(uri("app", home.through(ports[warm]), caches[warm]))
    first.sql("CREATE TABLE t(n INTEGER PRIMARY KEY, body)")
    for n in range(commits):
        first.sql("INSERT INTO t VALUES(?, 'x')", n)
    known = max(home.ids())
    check(first.quit() == 0, "it ends in good order")
    last = Worker(root)
    last.open(uri("app", home.through(ports[other]), caches[other]))
    for n in range(SINCE):
        last.sql("INSERT INTO t VALUES(?, 'since')", commits + n)
    behind = max(home.ids()) - known
    check(behind >= SINCE, "somebody wrote since", behind)
    worker, opening, claim, to_commit = takes_over(root, proxy, home, ports[warm], caches[warm], warm)
    told = [short(entry) for entry in opening]
    check(len(opening) <= MOST_OPENING + behind, f"a warm takeover that is {behind} objects behind costs at most {MOST_OPENING + behind} requests up to ownership", *told)
    check(len(claim) <= MOST_OF_CLAIM, f"its claim at most {MOST_OF_CLAIM}", *told)
    check(to_commit <= MOST_TO_COMMIT, f"its first COMMIT at most {MOST_TO_COMMIT} more", to_commit)
    check(worker.value("SELECT count(*) FROM t WHERE body='since'") == SINCE, "it sees what was written before it")
    last.refused("INSERT INTO t VALUES(-1, 'too late')")
    worker.quit()
    last.quit()
    cold, from_nothing, _, _ = takes_over(root, proxy, home, ports[empty], caches[empty], empty)
    cold.quit()
    return len(opening) - behind, len(claim), to_commit, len(from_nothing), told


def test(root):
    with bucket_support.homes(root, WHERE) as server, FaultProxy(server) as proxy:
        found = {commits: story(root, proxy, commits) for commits in (SHORT, LONG)}
        check(found[SHORT][:3] == found[LONG][:3], "a warm takeover costs the same whatever the log's length", *map(str, found.values()))
        # (About: a request that the server answers slowly may be asked again, and objects are fetched ahead.)
        check(found[LONG][3] - found[SHORT][3] >= (LONG - SHORT) // 2, "the count proves nothing: from an empty cache it must grow with the log", *map(str, found.values()))
        opening, claim, to_commit, _, told = found[LONG]
        print(f"takeover_requests ({WHERE}): {opening} requests up to ownership beside one for each object behind, {claim} of them the claim's; {to_commit} more up to the "
              f"acknowledged COMMIT; the same after {SHORT} and {LONG} commits (from an empty cache {found[SHORT][3]} and {found[LONG][3]}): {'; '.join(told)}")


if __name__ == "__main__":
    sys.exit(main(test, "takeover_requests"))
