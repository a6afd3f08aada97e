"""Readers and a warm claimer standing just below a live trim: 500 meetings, and nobody ever takes a false tail for the end of the stream (B5, B6).

One process writes and, because snapshot_after is small, makes snapshots, packs and trims all the time. Meanwhile others open: a reader with an old copy, a
reader with none, `onepen export`, and a claimer whose copy lags behind what was trimmed. What each sees must be 1..k without a gap, k at least what was
acknowledged before it began. In many meetings a claimer is stopped (SIGSTOP) before its claim, before it reads on after it, or before it settles, until
a trim has gone over everything that was in the log when it was stopped: these are counted.
"""

import random

from bucket_support import ARGUMENTS, BucketHome, main_where, new_home
from harness import QUICK, SqlError, Worker, check, log_objects, seed, uri
from support import exported, local, synced, table

MEETINGS = int(ARGUMENTS[0]) if ARGUMENTS else 60 if QUICK else 500
# Many small objects, also in a bucket, where commits would wait for each other: the newest 64 objects are never trimmed.
TENDED = {"snapshot_after": 64 << 10, "notice_within": 50, "max_linger": "0ms"}
ROW_BYTES = 3_000
MOST_ROUNDS = 60         # of writing until the log was trimmed past who stands still: in a bucket some ten commits share an object, and the newest 64 objects stay
KEPT_ROWS = 40            # the database stays small, the log grows
COMMITS_BETWEEN = 12      # of a meeting and the next
HELD_AT = ("owner.before_write_ahead", "owner.after_write_ahead", "owner.before_claim", "owner.before_read", "owner.before_settle")
BEFORE_THE_CLAIM = HELD_AT[:3]   # at the others it is the owner, and whoever wrote before is fenced: no trim goes on unless a further one takes over


class Writer:
    def __init__(self, root, home, cache):
        self.worker = Worker(root)
        self.uri = local("app", home, cache, **TENDED)
        self.worker.open(self.uri)
        self.last = 0

    def set_up(self):
        table(self.worker)
        self.worker.sql("CREATE TABLE IF NOT EXISTS counted(one INTEGER PRIMARY KEY, n INTEGER)")
        self.last = (self.worker.sql("SELECT n FROM counted") or [[0]])[0][0]

    def write(self, count):
        for _ in range(count):
            self.last += 1
            self.worker.sql("BEGIN")
            self.worker.sql("INSERT INTO t VALUES(?, 'w', randomblob(?))", self.last, ROW_BYTES)
            self.worker.sql("DELETE FROM t WHERE n <= ?", self.last - KEPT_ROWS)
            self.worker.sql("INSERT INTO counted VALUES(1, ?) ON CONFLICT(one) DO UPDATE SET n = excluded.n", self.last)
            self.worker.sql("COMMIT")
        synced(self.worker)


def judge(what, at_least, at_most, count, rows):
    check(at_least <= count <= at_most, f"{what}: {at_least} transactions were acknowledged before it began, {at_most} are begun, and it shows {count}")
    check(rows == list(range(max(1, count - KEPT_ROWS + 1), count + 1)), f"{what}: after transaction {count} it shows other rows", rows[:3], rows[-3:])


def seen_by(worker):
    """In one transaction: a reader goes on while it is open."""
    worker.sql("BEGIN")
    count = worker.sql("SELECT n FROM counted")
    rows = [row[0] for row in worker.sql("SELECT n FROM t ORDER BY n")]
    worker.sql("COMMIT")
    return (count[0][0] if count else 0), rows


def lowest_object(home):
    ids = home.ids() if isinstance(home, BucketHome) else [int(path.name) for path in log_objects(home)]
    return ids[0], ids[-1], len(ids)


def mark(home):
    """Below this object nothing in the log folder counts any more (docs/formats/log-object.md)."""
    return home.mark() if isinstance(home, BucketHome) else max((int(path.name) for path in (home / "app/@mark").glob("[0-9]*")), default=0)


def test(root):
    start = seed()
    chance = random.Random(start)
    print(f"trim_live: seed {start}")
    home = new_home(root)
    caches = [root.cache(), root.cache()]
    writer = Writer(root, home, caches[0])
    writer.set_up()
    writer.write(30)
    reader, claims, kinds, met = Worker(root), 0, {}, {}
    reader_cache = root.cache()
    for meeting in range(MEETINGS):
        writer.write(chance.randrange(1, COMMITS_BETWEEN))
        # Two of five are stopped claimers, at each place in turn: also in few meetings each is met.
        kind = "stopped claimer" if meeting % 5 in (0, 2) else chance.choices(("reader behind", "reader from nothing", "export", "claimer behind"), (35, 10, 5, 10))[0]
        kinds[kind] = kinds.get(kind, 0) + 1
        what = f"meeting {meeting} ({kind})"
        before = writer.last
        if kind.startswith("reader"):
            cache = root.cache() if kind.endswith("nothing") else reader_cache
            # The writer goes on while this one opens.
            reader.send("open", uri=uri("app", home, cache, mode="ro"))
            writer.write(chance.randrange(1, COMMITS_BETWEEN))
            reader.answer()
            judge(what, before, writer.last, *seen_by(reader))
            reader.close()
        elif kind == "stopped claimer":
            place = HELD_AT[(kinds[kind] - 1) % len(HELD_AT)]
            stopped = Worker(root, env={"ONEPEN_FAILPOINT": f"{place}=stop@1"})
            stopped.send("open", uri=local("app", home, chance.choice((reader_cache, root.cache())), **TENDED))
            check(stopped.ready_or_stopped() == "stopped", f"{what}: it was not stopped at {place}")
            stood = lowest_object(home)[1]   # it has read no further than this
            if place not in BEFORE_THE_CLAIM:  # somebody else takes the pen from it, and goes on
                writer.worker.kill()
                claims += 1
                writer.worker = Worker(root)
                writer.worker.open(local("app", home, caches[claims % 2], **TENDED))
                count, rows = seen_by(writer.worker)
                judge(what, before, before, count, rows)
            for _ in range(MOST_ROUNDS):
                if mark(home) > stood:
                    break
                writer.write(30)
            if mark(home) > stood:
                met[place] = met.get(place, 0) + 1
            at_most = writer.last
            stopped.go_on()
            stopped.stops_until_ready()
            try:
                stopped.answer()
                try:
                    synced(stopped)  # the truth about who is the owner
                    owner = True
                except SqlError:
                    owner = False
                    check(place not in BEFORE_THE_CLAIM, f"{what} at {place}: nobody claimed after it, but it is refused", stopped.sentence())
                if owner:
                    judge(f"{what} at {place}", at_most, at_most, *seen_by(stopped))
                (writer.worker if owner else stopped).kill()
                writer.worker = stopped if owner else writer.worker
            except SqlError:
                check(place not in BEFORE_THE_CLAIM or stopped.sentence(), f"{what} at {place}: refused without a sentence")
                stopped.quit()
        elif kind == "export":
            out = exported(root, home)
            judge(what, before, writer.last, out.execute("SELECT n FROM counted").fetchone()[0], [row[0] for row in out.execute("SELECT n FROM t ORDER BY n")])
            out.close()
        else:
            claims += 1
            next_one = Worker(root)
            next_one.send("open", uri=local("app", home, caches[claims % 2], **TENDED))
            refused = None
            try:
                writer.write(chance.randrange(1, 4))
            except SqlError as error:
                refused = error  # fenced in the middle of it: what was confirmed counts
            next_one.answer()
            count, rows = seen_by(next_one)
            judge(what, before, writer.last + 1, count, rows)
            check(refused is None or refused.code == 23, f"{what}: the writer before may only be refused", str(refused))
            writer.worker.quit()
            writer.worker = next_one
            writer.last = count
    low, high, kept = lowest_object(home)
    trimmed = high - kept
    check(trimmed > MEETINGS, "hardly anything was trimmed: the meetings met nothing", f"{kept} of {high} objects are kept")
    reader.quit()
    writer.worker.quit()
    check(sum(met.values()) >= MEETINGS // 4 and set(met) == set(HELD_AT), "too few were held while the log was trimmed past them", met)
    print(f"trim_live: held while a trim went past them: {met}")
    print(f"trim_live: {MEETINGS} meetings ({', '.join(f'{n} {kind}' for kind, n in sorted(kinds.items()))}) while {trimmed} of {high} objects were trimmed: "
          f"never a false tail, {claims} claims, {writer.last} transactions")


main_where(test, "trim_live")
