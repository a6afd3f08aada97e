"""Each host opens in turn and fences the one before: every ordered pair of sqlite3, Python and better-sqlite3, and a chain through all of them.

The older one's COMMIT and new transactions fail with code 23; onepen_error() names both epochs and the new owner; a read transaction that was open
keeps its snapshot; ROLLBACK, close and onepen_status() work.
"""

from hosts import HOSTS, SqlError, check, refused, status

import harness


def told_by_whom(old, new, epochs):
    sentence = old.sentence()
    check("fenced" in sentence, f"{old.name}: the sentence must say that it is fenced", sentence)
    check(f"pid {new.pid}" in sentence, f"{old.name}: the sentence must name the new owner, pid {new.pid}", sentence)
    for epoch in epochs:
        check(f"epoch {epoch}" in sentence, f"{old.name}: the sentence must name epoch {epoch}", sentence)


def reset_of(old):
    got = status(old)
    check(harness.reset_kind(got) == "fenced", f"{old.name}: onepen_status() must show the reset: fenced", got)
    return got


def snapshot_story(root, old_kind, new_kind):
    """A read transaction that was open when the new owner came."""
    home = root.home_folder()
    old, new = old_kind(root, home, root.cache()), new_kind(root, home, root.cache())
    old.open()
    old.sql("CREATE TABLE t(x)")
    old.sql("INSERT INTO t VALUES ('from one')")
    old.sql("BEGIN")
    check(old.sql("SELECT x FROM t") == [["from one"]], f"{old.name} reads its own row")
    new.open()
    check(new.sql("SELECT x FROM t") == [["from one"]], f"{new.name} sees what {old.name} committed")
    new.sql("INSERT INTO t VALUES ('from two')")
    try:
        rows = old.sql("SELECT onepen_synced()")
    except SqlError:
        pass
    else:
        raise harness.Failure(f"{old.name}: onepen_synced() must fail once somebody else owns it, but it answered {rows}")
    reset_of(old)
    check(old.sql("SELECT x FROM t") == [["from one"]], f"{old.name}: an open read transaction keeps its snapshot after the reset")
    check(old.sql("SELECT count(*) FROM t") == [["1"]], f"{old.name}: and goes on with other statements")
    old.sql("ROLLBACK")
    refused(old, "SELECT x FROM t")
    refused(old, "INSERT INTO t VALUES ('too late')")
    refused(old, "BEGIN IMMEDIATE")
    told_by_whom(old, new, (1, 2))
    reset_of(old)
    old.close()
    check(new.sql("SELECT x FROM t ORDER BY rowid") == [["from one"], ["from two"]], f"{new.name} has both rows and nothing else")
    old.end()
    new.end()


def commit_story(root, old_kind, new_kind):
    """A write transaction that was open when the new owner came, and one statement alone."""
    home = root.home_folder()
    old, new = old_kind(root, home, root.cache()), new_kind(root, home, root.cache())
    old.open()
    old.sql("CREATE TABLE t(x)")
    old.sql("INSERT INTO t VALUES ('from one')")
    old.sql("BEGIN IMMEDIATE")
    old.sql("INSERT INTO t VALUES ('not yet')")
    new.open()
    new.sql("INSERT INTO t VALUES ('from two')")
    refused(old, "COMMIT")
    told_by_whom(old, new, (1, 2))
    try:
        old.sql("ROLLBACK")
    except SqlError as error:  # SQLite itself has rolled back already: then there is nothing to roll back
        check("no transaction is active" in error.message, f"{old.name}: ROLLBACK must work", str(error))
    refused(old, "INSERT INTO t VALUES ('too late')")
    refused(old, "SELECT x FROM t")
    reset_of(old)
    old.close()
    check(new.sql("SELECT x FROM t ORDER BY rowid") == [["from one"], ["from two"]], f"{new.name} has both rows and nothing else")
    # Opening again is a takeover: the pen goes back.
    old.open()
    check(old.sql("SELECT x FROM t ORDER BY rowid") == [["from one"], ["from two"]], f"{old.name} opens again and sees both rows")
    old.sql("INSERT INTO t VALUES ('back again')")
    refused(new, "INSERT INTO t VALUES ('now I am late')")
    told_by_whom(new, old, (2, 3))
    old.end()
    new.end()


def chain(root):
    """One machine, one cache root: the last to open wins also there, with a copy of its own."""
    home, cache = root.home_folder(), root.cache()
    rows = []
    hosts = [kind(root, home, cache) for kind in HOSTS + HOSTS[:1]]
    for number, host in enumerate(hosts):
        host.open()
        if number == 0:
            host.sql("CREATE TABLE t(x)")
        check(host.sql("SELECT x FROM t ORDER BY rowid") == rows, f"{host.name} sees the rows of all before it")
        host.sql(f"INSERT INTO t VALUES ('{number} {host.name}')")
        rows.append([f"{number} {host.name}"])
        for older in hosts[:number]:
            refused(older, "INSERT INTO t VALUES ('too late')")
    last = status(hosts[-1])
    check(last["epoch"] == len(hosts), "each opening is one epoch", last)
    for host in hosts:
        host.end()
    return len(hosts)


def test(root):
    pairs = 0
    for old_kind in HOSTS:
        for new_kind in HOSTS:
            snapshot_story(root, old_kind, new_kind)
            commit_story(root, old_kind, new_kind)
            pairs += 1
    length = chain(root)
    print(f"story: {pairs} ordered pairs of {', '.join(kind.name for kind in HOSTS)}, each with an open reader and with an open writer, "
          f"and a chain of {length} on one cache root: every older one refused with code 23 and told by whom")


harness.main(test, "story")
