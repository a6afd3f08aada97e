"""An owner that sleeps through its own dismissal: stopped in a transaction, and stopped inside an append, while another process takes over.

When it wakes, its COMMIT is answered truthfully: refused and nowhere, or (its append had landed before the takeover) whole and acknowledged.
"""

from harness import SQLITE_AUTH, SqlError, Worker, check, main, reset_kind, uri

PLACES_AT_LEAST = 3  # failpoints inside the append that the calibration must find
MOST_HITS = 60       # of one failpoint in this short story
IDLE_MS = 3_600_000  # notice_within: the owner's own look at the stream stays out of the story


def fresh_reader(root, home):
    """The rows of t as the stream has them: opened from nothing, which also fences everybody before."""
    worker = Worker(root)
    worker.open(uri("app", home, root.cache()))
    rows = [tuple(row) for row in worker.sql("SELECT txn, part FROM t ORDER BY txn, part")]
    worker.quit()
    return rows


def in_mid_transaction(root):
    home = root.home_folder()
    old = Worker(root)
    old.open(uri("app", home, root.cache()))
    old.sql("CREATE TABLE t(txn, part)")
    old.sql("INSERT INTO t VALUES(1, 1)")
    old.sql("BEGIN IMMEDIATE")
    old.sql("INSERT INTO t VALUES(2, 1)")
    old.pause()
    new = Worker(root)
    new.open(uri("app", home, root.cache()))
    check(new.value("SELECT count(*) FROM t") == 1, "an open transaction of the old owner must not be seen")
    new.sql("INSERT INTO t VALUES(3, 1)")
    old.go_on()
    old.sql("INSERT INTO t VALUES(2, 2)")  # still in the transaction: whatever it says, COMMIT decides
    old.refused("COMMIT")
    sentence = old.sentence()
    check("fenced" in sentence and str(new.pid) in sentence, "the sentence must say that it is fenced and by whom", sentence)
    if old.ask("sql", sql="SELECT 1")["in_transaction"]:
        old.sql("ROLLBACK")
    old.refused("INSERT INTO t VALUES(4, 1)")
    check(reset_kind(old.status()) == "fenced", "the handle must be reset: fenced", old.status())
    check(new.sql("SELECT txn FROM t ORDER BY txn") == [[1], [3]], "the refused commit is nowhere")
    old.quit()
    new.quit()
    rows = fresh_reader(root, home)
    check(rows == [(1, 1), (3, 1)], "the stream holds what was acknowledged, and only that", rows)


def append_places(root):
    """The failpoints between BEGIN's end and COMMIT's return, in the order reached."""
    home = root.home_folder()
    names = root.path / "append-failpoints"
    names.touch()
    root.give(names)
    worker = Worker(root, env={"ONEPEN_FAILPOINT_LIST": names})
    worker.open(uri("app", home, root.cache(), notice_within=IDLE_MS))
    # The names of the opening are known now; an append's are those that the first commit adds.
    before = set(names.read_text().split())
    worker.sql("CREATE TABLE t(txn, part)")
    worker.sql("INSERT INTO t VALUES(1, 1)")
    after = [name for name in names.read_text().split() if name not in before]
    worker.quit()
    # Those that opening reaches too (a claim is an object like any other) count as well, at a later hit.
    return after, sorted(before)


def in_mid_append(root, name, hit):
    """Stops the old owner at the failpoint; returns how its COMMIT was answered, or None if the place was not reached in it."""
    home = root.home_folder()
    old = Worker(root, env={"ONEPEN_FAILPOINT": f"{name}=stop@{hit}"})
    old.send("open", uri=uri("app", home, root.cache(), notice_within=IDLE_MS))
    # Where the name is reached while opening, its later hits are inside the commits; the caller picks the hit.
    old.answer()
    old.sql("CREATE TABLE t(txn, part)")
    old.sql("INSERT INTO t VALUES(1, 1)")
    old.sql("BEGIN IMMEDIATE")
    old.sql("INSERT INTO t VALUES(2, 1)")
    old.sql("INSERT INTO t VALUES(2, 2)")
    old.send("sql", sql="COMMIT", params=[], conn="main")
    old.wait_stopped()
    new = Worker(root)
    new.open(uri("app", home, root.cache()))
    seen = new.value("SELECT count(*) FROM t WHERE txn = 2")
    check(seen in (0, 2), f"{name}: the new owner sees half of a commit")
    new.sql("INSERT INTO t VALUES(3, 1)")
    old.go_on()
    try:
        old.answer()
        answer = "acknowledged"
    except SqlError as error:
        check(error.code == SQLITE_AUTH, f"{name}: the COMMIT of a paused owner must be refused with code 23", str(error), old.sentence())
        answer = "refused"
    sentence = old.sentence()
    kind = reset_kind(old.status())
    check((answer == "acknowledged") == (seen == 2) or kind in ("unresolved", "broken"),
          f"{name}: COMMIT was {answer}, but the new owner saw {seen} of its 2 rows", sentence, old.status())
    old.refused("INSERT INTO t VALUES(4, 1)")
    check(reset_kind(old.status()) is not None, f"{name}: the old owner must be reset", old.status())
    old.quit()
    new.quit()
    rows = fresh_reader(root, home)
    check(rows == [(1, 1)] + [(2, 1), (2, 2)][:seen] + [(3, 1)], f"{name}: COMMIT was {answer}; the stream holds {rows}", sentence)
    return answer


def hits_before_commit(root, names):
    """For each failpoint: how often it is reached before the COMMIT under test, and how often inside it (counted by stopping at every hit)."""
    counts = {}
    statements = ("CREATE TABLE t(txn, part)", "INSERT INTO t VALUES(1, 1)", "BEGIN IMMEDIATE", "INSERT INTO t VALUES(2, 1)", "INSERT INTO t VALUES(2, 2)", "COMMIT")
    for name in names:
        worker = Worker(root, env={"ONEPEN_FAILPOINT": ",".join(f"{name}=stop@{n}" for n in range(1, MOST_HITS))})
        worker.send("open", uri=uri("app", root.home_folder(), root.cache(), notice_within=IDLE_MS))
        hits = worker.count_stops()
        for sql in statements:
            inside = 0
            worker.send("sql", sql=sql, params=[], conn="main")
            inside = worker.count_stops()
            hits += inside
        counts[name] = (hits - inside, inside)
        worker.kill()
    return counts


def test(root):
    in_mid_transaction(root)
    added, opening = append_places(root)
    counts = hits_before_commit(root, added + opening)
    places = [(name, before + n) for name, (before, inside) in counts.items() for n in range(1, inside + 1)]
    check(len({name for name, _ in places}) >= PLACES_AT_LEAST, "hardly any failpoint lies inside a COMMIT", counts)
    answers = {}
    for name, hit in places:
        answers.setdefault(in_mid_append(root, name, hit), []).append(name)
    check("refused" in answers, "no place lets the takeover come before the append", answers)
    print(f"paused_owner: stopped in a transaction: refused and nowhere. Stopped at {len(places)} places inside a COMMIT: "
          + "; ".join(f"{len(names)} {answer} ({', '.join(names)})" for answer, names in sorted(answers.items())))


main(test, "paused_owner")
