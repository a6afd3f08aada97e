"""What a bucket is asked for when nobody writes, and how often: docs/operating/buckets.md, "What it costs".

    bucket_cost.py radosgw|azurite

Counted by the fault proxy before the real server, which records every request with its time. Bounds are on requests in the time that passed: a slow machine makes
fewer. What has to happen meanwhile is waited for: so many looks of a follower, so many signs of life.
"""

import sys
import time

import bucket_support
from bucket_support import CHANGING, LOG, FaultProxy, methods
from harness import HANG_SECONDS, Worker, check, main, uri, url

WHERE = sys.argv[1]
ALIVE = "/@alive/"
TERM_S = 2
SIGNS_IN_A_TERM = 4     # owner.h, kSignsInATerm: the owner's, and looks of the standby
RAREST_LOOK_S = 2       # open_bucket.h, kBucketPollMax
LISTINGS_OF_A_LOOK = 2  # the log and the mark
STEADY_AFTER = 24       # requests of a follower that lead from a busy database to the rarest pace
RATE, COMMITS = 10, 40


def eventually(what, ready):
    deadline = time.monotonic() + HANG_SECONDS
    while not ready():
        check(time.monotonic() < deadline, f"it never came to this: {what}")
        time.sleep(0.005)


def wait_for(proxy, count, start, **want):
    """Until so many requests that are like this have come; the id behind the last."""
    for _ in range(count):
        start = proxy.wait(start=start, **want)["id"] + 1
    return start


def rests(worker):
    """The caretaker has looked after the first commit, and nothing is under way."""
    eventually("the caretaker rests", lambda: (lambda growth: growth["next_snapshot_at"] > 0 and not growth["busy"])(worker.status()["growth"]))


def made(root, proxy, client, **parameters):
    home = bucket_support.new_home(root)
    worker, mine = Worker(root), home.through(proxy.listen(client))
    worker.open(uri("app", mine, root.cache(), **parameters))
    worker.sql("CREATE TABLE t(n INTEGER PRIMARY KEY)")
    worker.sql("INSERT INTO t VALUES(1)")
    worker.value("SELECT onepen_synced()")
    rests(worker)
    return home, worker


def of(log, client):
    return [entry for entry in log if entry["client"] == client]


def shown(log):
    return [f"{entry['at']:.3f} {entry['method']} {entry['target']}" for entry in log[:20]]


def span(log):
    return log[-1]["at"] - log[0]["at"]


def most(log, every_s, requests):
    """So many requests are paid for by the time that passed, and one more."""
    return requests * (span(log) / every_s + 1)


def idle(root, proxy, durability):
    """An owner without term= asks for nothing while it is idle; a follower only lists, and ever more rarely."""
    home, owner = made(root, proxy, "idle", durability=durability)
    follower = Worker(root)
    follower.open(uri("app", home.through(proxy.listen("follower")), root.cache(), mode="ro"))
    start = proxy.here()
    steady = wait_for(proxy, STEADY_AFTER, start, client="follower")
    wait_for(proxy, 3 * LISTINGS_OF_A_LOOK, steady, client="follower")
    log = proxy.log(start)
    check(not of(log, "idle"), "an idle owner must ask for nothing", *shown(of(log, "idle")))
    looks = of(log, "follower")
    check(methods(looks).keys() == {"GET"} and all("prefix=" in entry["target"] for entry in looks), "a follower of an idle database only lists", *shown(looks))
    late = looks[-3 * LISTINGS_OF_A_LOOK:]
    check(len(late) <= most(late, RAREST_LOOK_S, LISTINGS_OF_A_LOOK), f"a follower of an idle database looks every {RAREST_LOOK_S} s", *shown(late))
    # It is no less an owner, and the follower sees what comes.
    owner.sql("INSERT INTO t VALUES(2)")
    offset = owner.value("SELECT onepen_synced()")
    follower.value("SELECT onepen_wait_for(?)", offset)
    check(follower.value("SELECT count(*) FROM t") == 2, "the follower sees the new commit")
    seconds = span(looks)
    owner.quit()
    follower.quit()
    print(f"bucket_cost ({WHERE}): an idle owner ({durability}) asked for nothing in {seconds:.1f} s; its follower made {len(looks)} listings, the last {len(late)} in {span(late):.1f} s")


def with_standby(root, proxy):
    """With term= and a standby: signs of life and looks for whoever stands ready, four in a term, by the owner; as many looks by the standby. Killed, it is followed."""
    home, owner = made(root, proxy, "beats", term=f"{TERM_S}s")
    standby, there = Worker(root), home.through(proxy.listen("standby"))
    cache = root.cache()
    standby.open(uri("app", there, cache, mode="ro", standby=1, term=f"{TERM_S}s"), conn="ro")
    start = wait_for(proxy, STEADY_AFTER, proxy.here(), client="standby")
    wait_for(proxy, 3 * SIGNS_IN_A_TERM, start, client="beats", method="PUT")
    log = proxy.log(start)
    beats, looks = of(log, "beats"), of(log, "standby")
    check(all(ALIVE in entry["target"] for entry in beats), "an idle owner asks for nothing but its liveness object and its successor's", *shown(beats))
    every = TERM_S / SIGNS_IN_A_TERM
    for method in ("PUT", "GET"):
        ours = [entry for entry in beats if entry["method"] == method]
        check(len(ours) <= most(beats, every, 1), f"{SIGNS_IN_A_TERM} signs of life in a term", method, *shown(ours))
    check(not [entry for entry in looks if entry["method"] in CHANGING], "a standby that watches writes nothing", *shown(looks))
    signs = [entry for entry in looks if ALIVE in entry["target"]]
    check(len(signs) <= most(looks, every, 2), f"a standby looks {SIGNS_IN_A_TERM} times in a term", *shown(signs))
    # As a follower it lists at the pace of its looks, or of kBucketPollMax if that is longer; and each look asks for the tail.
    check(len(looks) - len(signs) <= most(looks, every, 2 * LISTINGS_OF_A_LOOK), "a standby lists no more often", *shown(looks))
    owner.kill()
    eventually("the standby owns", lambda: standby.status(conn="ro")["role"] == "owner")
    standby.open(uri("app", there, cache))
    standby.sql("INSERT INTO t VALUES(2)")
    check(standby.value("SELECT count(*) FROM t") == 2, "the standby goes on")
    standby.quit()
    print(f"bucket_cost ({WHERE}): term {TERM_S} s: in {span(beats):.1f} s the owner made {dict(methods(beats))}, all of liveness objects, and its standby {dict(methods(looks))}, "
          f"of which {len(signs)} of liveness objects; it took over from the killed owner")


def handed_over(root, proxy):
    home, owner = made(root, proxy, "leaves", term=f"{TERM_S}s")
    standby, there = Worker(root), home.through(proxy.listen("comes"))
    cache = root.cache()
    standby.open(uri("app", there, cache, mode="ro", standby=1, term=f"{TERM_S}s"), conn="ro")
    wait_for(proxy, 2, proxy.here(), client="comes", path=ALIVE)  # it knows what was asked of others before it came
    code, out, err = root.onepen("handover", "app", "--home", url(home))
    check(code == 0, f"onepen handover ended with {code}", out, err)
    eventually("the standby owns", lambda: standby.status(conn="ro")["role"] == "owner")
    owner.refused("INSERT INTO t VALUES(2)")
    standby.open(uri("app", there, cache))
    standby.sql("INSERT INTO t VALUES(3)")
    check(standby.value("SELECT group_concat(n) FROM t") == "1,3", "nothing is lost, and nothing that was refused is there")
    standby.quit()
    owner.quit()
    print(f"bucket_cost ({WHERE}): {out.strip()}")


def bounded(root, proxy, durability):
    """max_objects_per_second, with either durability: no more objects of the log in the time that passed, and every commit is there."""
    name = f"bounded-{durability}"
    home, owner = made(root, proxy, name, durability=durability, max_objects_per_second=RATE, max_linger=0)
    start = proxy.here()
    for number in range(COMMITS):
        owner.sql("INSERT INTO t VALUES(?)", 10 + number)
        if durability == "local" and number % 2:
            owner.value("SELECT onepen_synced()")  # so that they do not all go in one object
    owner.value("SELECT onepen_synced()")
    puts = [entry for entry in of(proxy.log(start), name) if entry["method"] == "PUT" and LOG in entry["target"]]
    check(len(puts) >= COMMITS // 2, "hardly anything was written", len(puts))
    check(len(puts) <= RATE + RATE * span(puts) + 1, f"at most {RATE} objects a second, and a second's worth at once", len(puts), span(puts))
    check(owner.value("SELECT count(*) FROM t") == COMMITS + 1, "every commit is there")
    owner.quit()
    check(home.ids()[-1] >= len(puts), "they are in the bucket")
    print(f"bucket_cost ({WHERE}): {COMMITS} commits ({durability}) with max_objects_per_second={RATE}: {len(puts)} objects in {span(puts):.1f} s")


def test(root):
    with bucket_support.homes(root, WHERE) as server, FaultProxy(server) as proxy:
        idle(root, proxy, "replicated")
        idle(root, proxy, "local")
        with_standby(root, proxy)
        handed_over(root, proxy)
        bounded(root, proxy, "replicated")
        bounded(root, proxy, "local")


main(test, "bucket_cost")
