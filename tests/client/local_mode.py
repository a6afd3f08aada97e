"""Each host in local mode: its commits follow in the background, onepen_synced() waits for them, also a program that leaves without closing loses none,
and the one who was overtaken is told by onepen_synced() and by its next transaction.
"""

from hosts import HOSTS, SqlError, check, refused, status

import harness
from support import exported, salvage

ROWS = 40


def rows_of(host):
    return [row[0] for row in host.sql("SELECT x FROM t ORDER BY rowid")]


def relay(root):
    """One machine: each host opens, adds its rows, and ends: in good order, or by leaving. The next one has all of them."""
    home, cache = root.home_folder(), root.cache()
    expected = []
    for turn, kind in enumerate(HOSTS + HOSTS):
        host = kind(root, home, cache)
        host.open(durability="local")
        got = status(host)
        check(got["durability"] == "local" and got["role"] == "owner", f"{host.name} has it in local mode", got)
        if turn == 0:
            host.sql("CREATE TABLE t(x)")
        check(rows_of(host) == expected, f"{host.name} has the rows of all before it")
        for n in range(ROWS):
            expected.append(f"{turn}.{n} {host.name}")
            host.sql(f"INSERT INTO t VALUES ('{expected[-1]}')")
        if turn % 2 == 0:
            host.leave()
            continue
        check(host.sql("SELECT onepen_synced()")[0][0] > "", f"{host.name}: onepen_synced() answers the offset")
        check(status(host)["pending"] == 0, f"{host.name}: nothing is pending after it", status(host))
        host.end()
    out = exported(root, home)
    check([row[0] for row in out.execute("SELECT x FROM t ORDER BY rowid")] == expected, "the stream holds every row of every host, once")
    out.close()
    check(not salvage(root, cache), "nothing is in salvage")
    return len(expected)


def overtaken(root, old_kind, new_kind):
    home, caches = root.home_folder(), (root.cache(), root.cache())
    old, new = old_kind(root, home, caches[0]), new_kind(root, home, caches[1])
    old.open(durability="local", notice_within=3_600_000)
    old.sql("CREATE TABLE t(x)")
    old.sql("INSERT INTO t VALUES ('from one')")
    old.sql("SELECT onepen_synced()")
    new.open(durability="local")
    new.sql("INSERT INTO t VALUES ('from two')")
    new.sql("SELECT onepen_synced()")
    try:
        old.sql("INSERT INTO t VALUES ('too late')")  # taken here, or refused at once when it has noticed
        late = True
    except SqlError as error:
        check(error.code == 23, f"{old.name}: refused with code 23", str(error))
        late = False
    try:
        offset = old.sql("SELECT onepen_synced()")
        raise harness.Failure(f"{old.name}: onepen_synced() must fail once somebody else owns it, but it answered {offset}")
    except SqlError as error:
        check(f"pid {new.pid}" in old.sentence(), f"{old.name} is told by whom", old.sentence(), str(error))
    check(harness.reset_kind(status(old)) == "fenced", f"{old.name} is reset", status(old))
    refused(old, "INSERT INTO t VALUES ('later')")
    old.close()
    old.open(durability="local")
    check(rows_of(old) == ["from one", "from two"], f"{old.name} opens again and has what the stream has")
    kept = [row[0] for one in salvage(root, caches[0]) for row in one.rows("SELECT x FROM t WHERE x = 'too late'")]
    check(kept == ["too late"] * late, f"{old.name}: what was committed too late is in salvage", kept)
    old.end()
    new.end()


def test(root):
    count = relay(root)
    pairs = list(zip(HOSTS, HOSTS[1:] + HOSTS[:1]))
    for old_kind, new_kind in pairs:
        overtaken(root, old_kind, new_kind)
    print(f"local_mode: {count} commits of {', '.join(kind.name for kind in HOSTS)}, half of them leaving without closing, are in the stream once; "
          f"{len(pairs)} that were overtaken were told by whom")


harness.main(test, "local_mode")
