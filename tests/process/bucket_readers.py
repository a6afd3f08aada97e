"""What goes over the wire: a hundred readers that open and read change nothing in the bucket. (What a takeover costs: takeover_requests.py.)

    bucket_readers.py radosgw|azurite

Counted by the fault proxy before the real server, which records every request. The count can fail: the same proxy sees the writes of a writer.
"""

import sys

import bucket_support
from bucket_support import CHANGING, FaultProxy, methods
from harness import QUICK, Worker, check, main, uri, url

WHERE = sys.argv[1]
READERS = 20 if QUICK else 100 if WHERE == "radosgw" else 40 if WHERE == "radosgw" else 40
BY_COMMAND = 3         # each third is a process of its own, `onepen sql`; the others are connections with mode=ro
PROCESSES = 5
ROWS = 30


def looks_only(root, proxy, home, owner):
    """Readers of every kind and every command that inspects, while the owner writes on."""
    port = proxy.listen("readers")
    there = home.through(port)
    workers = [Worker(root) for _ in range(PROCESSES)]
    caches = [root.cache() for _ in range(PROCESSES)]
    counted = {"command": 0, "connection": 0}
    for number in range(READERS):
        at_least = owner.value("SELECT count(*) FROM t")
        if number % BY_COMMAND == 0:
            fresh = root.cache() if number % 2 else caches[0]
            code, out, err = root.onepen("sql", "app", "SELECT count(*) FROM t", "--home", url(there), "--cache-root", fresh)
            check(code == 0, f"reader {number}: onepen sql ended with {code}", out, err)
            seen = int([word for word in out.split() if word.isdigit()][-1])
            counted["command"] += 1
        else:
            which = number % PROCESSES
            conn = f"reader{number}"
            workers[which].open(uri("app", there, root.cache() if number % 2 or number < PROCESSES * BY_COMMAND else caches[which], mode="ro"), conn=conn)
            seen = workers[which].value("SELECT count(*) FROM t", conn=conn)
            if number >= PROCESSES * BY_COMMAND:  # the first of each process stay, and follow; the next with a cache opens anew, from a copy that is behind
                workers[which].close(conn)
            counted["connection"] += 1
        check(seen >= at_least, f"reader {number} lags behind what was acknowledged before it opened", seen, at_least)
        owner.sql("INSERT INTO t VALUES(?, randomblob(500))", ROWS + number)
    for worker in workers:
        check(worker.quit() == 0, "a reader ends in good order")
    place = ("--home", url(there))
    inspections = [("list",), ("status", "app"), ("history", "app"), ("verify", "app"), ("export", "app", root.path / "user" / root.next("export.db")),
                   ("replicate", "app", "--to", root.path / "user" / root.next("replica.db"), "--once")]
    for command in inspections:
        code, out, err = root.onepen(*command, *place)
        check(code == 0, f"onepen {command[0]} ended with {code}", out, err)
    code, _, _ = root.onepen("status", "nothing", *place)
    check(code == 6, "a database that is not there", code)
    log = [entry for entry in proxy.log() if entry["client"] == "readers"]
    changing = [entry for entry in log if entry["method"] in CHANGING]
    check(not changing, f"{READERS} readers and {len(inspections)} inspections must not write", *[f"{entry['method']} {entry['target']}" for entry in changing[:10]])
    check(methods(log)["GET"] >= READERS, "the readers hardly asked the server: the count proves nothing", methods(log))
    print(f"bucket_readers ({WHERE}): {READERS} readers ({counted['command']} processes of onepen sql, {counted['connection']} connections) and {len(inspections)} inspections: "
          f"0 PUT, 0 POST, 0 DELETE; {dict(methods(log))}")


def writer_is_seen(root, proxy, home):
    port = proxy.listen("writer")
    code, out, err = root.onepen("sql", "app", "INSERT INTO t VALUES(-1, 'by the command')", "--write", "--home", url(home.through(port)), "--cache-root", root.cache())
    check(code == 0, "onepen sql --write", out, err)
    check(methods(proxy.log(), "writer")["PUT"] >= 2, "the writes of a writer are not seen", methods(proxy.log(), "writer"))


def test(root):
    with bucket_support.homes(root, WHERE) as server, FaultProxy(server) as proxy:
        home = bucket_support.new_home(root)
        owner = Worker(root)
        owner.open(uri("app", home, root.cache()))
        owner.sql("CREATE TABLE t(n INTEGER PRIMARY KEY, body)")
        for number in range(ROWS):
            owner.sql("INSERT INTO t VALUES(?, randomblob(500))", number)
        looks_only(root, proxy, home, owner)
        owner.quit()
        writer_is_seen(root, proxy, home)


main(test, "bucket_readers")
