"""An owner that sleeps through its own dismissal: stopped in a transaction, and stopped inside an append, while another process takes over.

When it wakes, its COMMIT is answered truthfully: refused and nowhere, or (its append had landed before the takeover) whole and acknowledged.
"""

from bucket_support import main_where, new_home
from harness import SQLITE_AUTH, SqlError, Worker, check, reset_kind, uri

PLACES_AT_LEAST = 3  # failpoints inside the append that the calibration must find
MOST_HITS = 100      # of one failpoint in this short story
IDLE_MS = 3_600_000  # notice_within: the owner's own look at the stream stays out of the story


def fresh_reader(root, home):
    """The rows of t as the stream has them: opened from nothing, which also fences everybody before."""
    worker = Worker(root)
    worker.open(uri("app", home, root.cache()))
    rows = [tuple(row) for row in worker.sql("SELECT txn, part FROM t ORDER BY txn, part")]
    worker.quit()
    return rows


def in_mid_transaction(root):
    home = new_home(root)
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


STATEMENTS = ("CREATE TABLE t(txn, part)", "INSERT INTO t VALUES(1, 1)", "BEGIN IMMEDIATE", "INSERT INTO t VALUES(2, 1)", "INSERT INTO t VALUES(2, 2)")


def reached_names(root):
    """The failpoints of an opening and a few commits."""
    names = root.path / "reached"
    names.touch()
    root.give(names)
    worker = Worker(root, env={"ONEPEN_FAILPOINT_LIST": names})
    worker.open(uri("app", new_home(root), root.cache(), notice_within=IDLE_MS))
    for sql in STATEMENTS + ("COMMIT",):
        worker.sql(sql)
    worker.quit()
    return sorted(set(names.read_text().split()))


def asked_to_commit(root, home, name):
    """An owner that is stopped at every hit of a failpoint, and was let go on up to the COMMIT, which it has just been asked for."""
    worker = Worker(root, env={"ONEPEN_FAILPOINT": ",".join(f"{name}=stop@{n}" for n in range(1, MOST_HITS))})

    def ask(op, **request):
        worker.send(op, **request)
        worker.stops_until_ready()
        worker.answer()

    ask("open", uri=uri("app", home, root.cache(), notice_within=IDLE_MS))
    for sql in STATEMENTS:
        ask("sql", sql=sql)
    worker.send("sql", sql="COMMIT")
    return worker


def stops_inside_commit(root, name):
    worker = asked_to_commit(root, new_home(root), name)
    stops = worker.stops_until_ready()
    worker.kill()
    return stops


def in_mid_append(root, name, stop):
    """Holds the old owner at its stop number `stop` inside COMMIT while another takes over; returns how its COMMIT was answered, or None if it was not reached."""
    home = new_home(root)
    old = asked_to_commit(root, home, name)
    if old.stops_until_ready(hold_at=stop) < stop:  # a thread of its own came by earlier this time
        old.kill()
        return None
    new = Worker(root)
    new.open(uri("app", home, root.cache()))
    seen = new.value("SELECT count(*) FROM t WHERE txn = 2")
    check(seen in (0, 2), f"{name}: the new owner sees half of a commit")
    new.sql("INSERT INTO t VALUES(3, 1)")

    def woken(sql):
        """What it answers once nothing stops it any more: the rows, or the error."""
        if sql is not None:
            old.send("sql", sql=sql)
        old.stops_until_ready()
        try:
            return old.answer()["rows"], None
        except SqlError as error:
            check(error.code == SQLITE_AUTH, f"{name}: {sql or 'COMMIT'} of an owner that slept must be refused with code 23", str(error))
            return None, error

    old.go_on()
    _, error = woken(None)
    answer = "acknowledged" if error is None else "refused"
    old.send("sql", sql="SELECT onepen_error()", conn="aux")
    sentence = old.answer()["rows"][0][0]
    kind = reset_kind(old.status())
    check((answer == "acknowledged") == (seen == 2) or kind in ("unresolved", "broken"),
          f"{name}: COMMIT was {answer}, but the new owner saw {seen} of its 2 rows", sentence, old.status())
    _, error = woken("INSERT INTO t VALUES(4, 1)")
    check(error is not None, f"{name}: the old owner still writes")
    check(reset_kind(old.status()) is not None, f"{name}: the old owner must be reset", old.status())
    old.kill()
    new.quit()
    rows = fresh_reader(root, home)
    check(rows == [(1, 1)] + [(2, 1), (2, 2)][:seen] + [(3, 1)], f"{name}: COMMIT was {answer}; the stream holds {rows}", sentence)
    return answer


def test(root):
    in_mid_transaction(root)
    inside = {name: stops_inside_commit(root, name) for name in reached_names(root)}
    places = [(name, number) for name, stops in inside.items() for number in range(1, stops + 1)]
    check(len({name for name, _ in places}) >= PLACES_AT_LEAST, "hardly any failpoint lies inside a COMMIT", inside)
    answers, missed = {"refused": [], "acknowledged": []}, 0
    for name, number in places:
        answer = in_mid_append(root, name, number)
        if answer is None:
            missed += 1
        else:
            answers[answer].append(name)
    check(answers["refused"], "no place lets the takeover come before the append", answers)
    check(missed * 2 < len(places), f"{missed} of {len(places)} places were not reached again")
    print("paused_owner: stopped in a transaction: refused and nowhere")
    for answer, names in answers.items():
        print(f"paused_owner: stopped inside COMMIT at {len(names)} places: {answer}, and the stream agrees: {', '.join(names)}")


main_where(test, "paused_owner")
