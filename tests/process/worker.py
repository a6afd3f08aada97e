"""One process that uses SQLite through the extension, as any program would. Reads one JSON request a line from standard input, answers one a line.

    worker.py <extension>

A commit is reported only after COMMIT returned, with one write(2): what stands in its output was acknowledged.
"""

import json
import os
import random
import sqlite3
import sys
import time
import zlib

# The plan of a transaction follows from (seed, number) alone, so that whoever opens the database next knows what must be in it.
CHECKPOINT_PATIENCE_MS = 100
WINDOW = 24  # transactions kept in the table: older ones are deleted by the newer


class Plan:
    def __init__(self, seed, number, big=True):
        r = random.Random(f"{seed}.{number}")
        self.number = number
        self.rows = []
        for part in range(r.randint(1, 4)):
            size = r.choice((20, 200, 3000))
            if big and r.random() < 0.06:
                size = r.choice((40_000, 300_000))
            self.rows.append((part, size))
        self.huge = big and r.random() < 0.03  # larger than one part of a commit (1 MiB of images)
        if self.huge:
            self.rows.append((len(self.rows), 2_400_000))
        self.savepoint = r.random() < 0.3   # rows inside a savepoint that is rolled back
        self.rollback = r.random() < 0.1    # a whole transaction rolled back before this one
        self.vacuum = r.random() < 0.04
        self.checkpoint = r.choice((None,) * 12 + ("PASSIVE", "FULL", "RESTART", "TRUNCATE"))

    def body(self, seed, part, size):
        return random.Random(f"{seed}.{self.number}.{part}").randbytes(size)


def say(**line):
    os.write(1, json.dumps(line, default=lambda b: b.hex() if isinstance(b, bytes) else str(b)).encode() + b"\n")


def failed(error):
    return {"ok": False, "code": (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF, "name": getattr(error, "sqlite_errorname", type(error).__name__), "message": str(error)}


class Process:
    def __init__(self, extension):
        self.conns = {}
        if extension:
            self.load(extension)

    def load(self, extension):
        aux = sqlite3.connect(":memory:", isolation_level=None)
        aux.enable_load_extension(True)
        aux.load_extension(extension)
        self.conns["aux"] = aux

    # --- single requests ---
    def op_load(self, extension):
        self.load(extension)
        return {}

    def op_open(self, uri, conn="main", at=None, plain=False):
        if at is not None:
            while time.monotonic_ns() < at:  # the other process spins towards the same instant
                pass
        self.conns[conn] = sqlite3.connect(uri, uri=not plain, isolation_level=None, timeout=60)
        return {}

    def op_sql(self, sql, params=(), conn="main"):
        cursor = self.conns[conn].execute(sql, params)
        return {"rows": cursor.fetchall(), "in_transaction": self.conns[conn].in_transaction}

    def op_close(self, conn="main"):
        self.conns.pop(conn).close()
        return {}

    def op_fork(self, statements, conn="main"):
        """Runs statements in a forked child on the inherited connection; reports what the child was told."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            told = []
            for sql in statements:
                try:
                    told.append({"ok": True, "rows": self.conns["aux" if "onepen_error" in sql else conn].execute(sql).fetchall()})
                except sqlite3.Error as error:
                    told.append(failed(error))
            os.write(writer, json.dumps(told, default=str).encode())
            os._exit(0)
        os.close(writer)
        data = b""
        while chunk := os.read(reader, 65536):
            data += chunk
        os.close(reader)
        _, status = os.waitpid(child, 0)
        return {"told": json.loads(data) if data else None, "status": os.waitstatus_to_exitcode(status)}

    # --- streams of transactions ---
    def op_run(self, seed, count, big=True, page_size=None, autocheckpoint=25, conn="main"):
        """Checks what the database holds against the plan, says so, and goes on with the next transactions."""
        db = self.conns[conn]
        db.execute(f"PRAGMA wal_autocheckpoint={autocheckpoint}")
        db.execute("CREATE TABLE IF NOT EXISTS t(txn INTEGER, part INTEGER, sum INTEGER, body BLOB)")
        db.execute("CREATE TABLE IF NOT EXISTS head(one INTEGER PRIMARY KEY CHECK(one = 1), n INTEGER)")
        last = held(db, lambda number: seed, big)
        say(opened=last)
        for number in range(last + 1, last + 1 + count):
            plan = Plan(seed, number, big)
            if plan.rollback:
                db.execute("BEGIN")
                db.execute("DELETE FROM t")
                db.execute("ROLLBACK")
            say(trying=number)
            apply(db, seed, plan)
            say(committed=number)
            if plan.checkpoint:
                db.execute(f"PRAGMA wal_checkpoint({plan.checkpoint})").fetchall()
            if plan.vacuum:
                say(vacuum=number)
                db.execute("VACUUM")
        return {"done": count}

    def op_local(self, seed, life, count, synced=0.0, at_end=True, autocheckpoint=12, conn="main"):
        """As op_run, for commits that follow in the background: says who made each transaction so far, goes on, and waits for the home now and then.

        Each life has bodies of its own, and `seq` keeps (number, life) of every transaction, so that two branches of one history are told apart."""
        db = self.conns[conn]
        doing, number = "setup", 0
        r = random.Random(f"{seed}.{life}.synced")

        def wait_for_the_home():
            offset = db.execute("SELECT onepen_synced()").fetchone()[0]
            say(synced=number, offset=offset)

        try:
            db.execute(f"PRAGMA wal_autocheckpoint={autocheckpoint}")
            db.execute("CREATE TABLE IF NOT EXISTS t(txn INTEGER, part INTEGER, sum INTEGER, body BLOB)")
            db.execute("CREATE TABLE IF NOT EXISTS head(one INTEGER PRIMARY KEY CHECK(one = 1), n INTEGER)")
            db.execute("CREATE TABLE IF NOT EXISTS seq(n INTEGER PRIMARY KEY, life INTEGER)")
            history = db.execute("SELECT n, life FROM seq ORDER BY n").fetchall()
            lives = dict(history)
            if (last := held(db, lambda n: f"{seed}.{lives[n]}", True)) != len(history):
                raise RuntimeError(f"head says {last} transactions, seq has {len(history)}")
            say(opened=history, status=json.loads(db.execute("SELECT onepen_status()").fetchone()[0]))
            for number in range(last + 1, last + 1 + count):
                plan = Plan(f"{seed}.{life}", number)
                if plan.rollback:
                    db.execute("BEGIN")
                    db.execute("DELETE FROM t")
                    db.execute("ROLLBACK")
                doing = "transaction"
                say(trying=number)
                apply(db, f"{seed}.{life}", plan, life)
                say(committed=number)
                doing = "checkpoint"
                if plan.checkpoint:  # it is told "busy" while commits are pending or a snapshot is made, and need not wait for them
                    db.execute(f"PRAGMA busy_timeout={CHECKPOINT_PATIENCE_MS}")
                    db.execute(f"PRAGMA wal_checkpoint({plan.checkpoint})").fetchall()
                    db.execute("PRAGMA busy_timeout=60000")
                doing = "vacuum"
                if plan.vacuum:
                    db.execute("VACUUM")
                doing = "synced"
                if r.random() < synced:
                    wait_for_the_home()
            if at_end:
                wait_for_the_home()
        except sqlite3.Error as error:
            line = {"refused": number, "doing": doing, **failed(error)}
            line.pop("ok")
            if db.in_transaction:
                try:
                    db.execute("ROLLBACK")
                except sqlite3.Error as again:
                    line["rollback"] = str(again)
            line["sentence"] = self.conns["aux"].execute("SELECT onepen_error()").fetchone()[0]
            line["status"] = json.loads(db.execute("SELECT onepen_status()").fetchone()[0])
            say(**line)
        return {"done": count}

    def op_leave(self, code=0):
        """Ends at once, as a program does that never closes: no destructor, no exit handler."""
        os._exit(code)

    def op_fill(self, first, count, size, conn="main", blobs=1, stop_on_reset=True):
        """Transactions that may fail: each is reported as it was answered. Goes on while the handle does."""
        db = self.conns[conn]
        for number in range(first, first + count):
            body = random.Random(f"fill.{number}").randbytes(size)
            try:
                db.execute("BEGIN IMMEDIATE")
                for part in range(blobs):
                    db.execute("INSERT INTO t VALUES(?,?,?,?)", (number, part, zlib.crc32(body), body))
                db.execute("COMMIT")
                say(txn=number, answer="ok")
            except sqlite3.Error as error:
                line = {"txn": number, "answer": "error", **failed(error)}
                line.pop("ok")
                if db.in_transaction:
                    try:
                        db.execute("ROLLBACK")
                    except sqlite3.Error as again:
                        line["rollback"] = str(again)
                try:
                    line["sentence"] = self.conns["aux"].execute("SELECT onepen_error()").fetchone()[0]
                    line["status"] = json.loads(db.execute("SELECT onepen_status()").fetchone()[0])
                except sqlite3.Error as again:
                    line["status_error"] = str(again)
                say(**line)
                if stop_on_reset and (line.get("status") or {}).get("reset"):
                    break
        return {"done": True}


def apply(db, seed, plan, life=None):
    db.execute("BEGIN IMMEDIATE")
    for part, size in plan.rows:
        body = plan.body(seed, part, size)
        db.execute("INSERT INTO t VALUES(?,?,?,?)", (plan.number, part, zlib.crc32(body), body))
    if plan.savepoint:
        db.execute("SAVEPOINT s")
        db.execute("INSERT INTO t VALUES(-1, -1, 0, zeroblob(20000))")
        db.execute("DELETE FROM t WHERE txn > 0")
        db.execute("ROLLBACK TO s")
        db.execute("RELEASE s")
    db.execute("DELETE FROM t WHERE txn <= ?", (plan.number - WINDOW,))
    db.execute("INSERT INTO head VALUES(1, ?) ON CONFLICT(one) DO UPDATE SET n = excluded.n", (plan.number,))
    if life is not None:
        db.execute("INSERT INTO seq VALUES(?, ?)", (plan.number, life))
    db.execute("COMMIT")


def held(db, seed_of, big):
    """The number of the last transaction, after every row was compared with the plan: each whole, once, and nothing else."""
    row = db.execute("SELECT n FROM head").fetchone()
    last = row[0] if row else 0
    want = {}
    for number in range(max(1, last - WINDOW + 1), last + 1):
        plan = Plan(seed_of(number), number, big)
        for part, size in plan.rows:
            want[(number, part)] = size
    got = {}
    for txn, part, total, body in db.execute("SELECT txn, part, sum, body FROM t"):
        if (txn, part) in got:
            raise RuntimeError(f"row ({txn},{part}) is there twice; last is {last}")
        if zlib.crc32(body) != total:
            raise RuntimeError(f"row ({txn},{part}) has a damaged body")
        got[(txn, part)] = len(body)
    if got != want:
        raise RuntimeError(f"after transaction {last} the rows are not those of the plan: missing {sorted(set(want) - set(got))[:5]}, unexpected {sorted(set(got) - set(want))[:5]}")
    check = db.execute("PRAGMA integrity_check").fetchone()[0] if last % 7 == 0 else "ok"
    if check != "ok":
        raise RuntimeError(f"integrity_check: {check}")
    return last


def main():
    try:
        process = Process(sys.argv[1] if len(sys.argv) > 1 else None)
    except sqlite3.Error as error:
        say(**failed(error))
        return
    for text in sys.stdin.buffer:
        request = json.loads(text)
        try:
            say(ok=True, **getattr(process, "op_" + request.pop("op"))(**request))
        except (sqlite3.Error, RuntimeError) as error:
            say(**failed(error))
    for conn in process.conns.values():
        conn.close()


main()
