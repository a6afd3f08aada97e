"""fork() with an open database: the child is refused with a sentence, and the parent goes on as if nothing had happened."""

import json

from harness import PYTHON, SQLITE_AUTH, Worker, check, main, uri


PREFORK = """
import json, os, sqlite3, sys
library, uri, other = sys.argv[1:4]
boot = sqlite3.connect(":memory:"); boot.enable_load_extension(True); boot.load_extension(library)
def connect(name): return sqlite3.connect(name, uri=True, timeout=10, isolation_level=None)
parent = connect(other)
parent.execute("CREATE TABLE t(x)")
told = []
for n in range(3):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            db = connect(uri)
            db.execute("CREATE TABLE IF NOT EXISTS t(x)")
            db.execute("INSERT INTO t VALUES(?)", (n,))
            status = json.loads(db.execute("SELECT onepen_status()").fetchone()[0])
            db.close()
            answer = {"epoch": status["epoch"], "claim": status["claim_id"]}
        except sqlite3.Error as error:
            answer = {"error": str(error), "sentence": boot.execute("SELECT onepen_error()").fetchone()[0]}
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    told.append(json.loads(os.read(reader, 65536)))
    os.waitpid(child, 0)
parent.execute("INSERT INTO t VALUES('parent')")
print(json.dumps({"told": told, "parent": parent.execute("SELECT count(*) FROM t").fetchone()[0]}))
"""


def prefork(root):
    """A host that loads the extension, forks its workers, and opens in each of them: what the sentence about fork() tells people to do must work."""
    home = root.home_folder()
    names = [uri(name, home, root.cache()) for name in ("shared", "parents")]
    code, out, err = root.run([PYTHON, "-c", PREFORK, root.extension(), *names])
    check(code == 0, "the host ends in good order", err)
    got = json.loads(out)
    check(all("epoch" in one for one in got["told"]), "each worker opens the database", got)
    check([one["epoch"] for one in got["told"]] == [1, 2, 3] and len({one["claim"] for one in got["told"]}) == 3, "each with a claim of its own", got)
    check(got["parent"] == 1, "the parent's other database goes on", got)


def test(root):
    home = root.home_folder()
    worker = Worker(root)
    worker.open(uri("app", home, root.cache()))
    worker.sql("CREATE TABLE t(x)")
    worker.sql("INSERT INTO t VALUES('parent')")
    statements = ["INSERT INTO t VALUES('child')", "SELECT onepen_error()", "SELECT count(*) FROM t", "BEGIN IMMEDIATE", "SELECT onepen_error()"]
    got = worker.ask("fork", statements=statements)
    check(got["status"] == 0 and got["told"], "the child must be told something, not die", got)
    write, sentence, read, begin, _ = got["told"]
    check(not write["ok"] and write["code"] == SQLITE_AUTH, "a write in the child must be refused with code 23", write)
    check(not begin["ok"] and begin["code"] == SQLITE_AUTH, "a write transaction in the child must be refused with code 23", begin)
    check(not read["ok"] and read["code"] == SQLITE_AUTH, "a read in the child must be refused with code 23: it would take locks of its parent", read)
    text = sentence["rows"][0][0] if sentence["ok"] else ""
    check("fork()" in text and len(text) > 60, "a sentence must name fork() and say what to do", text)
    worker.sql("INSERT INTO t VALUES('parent again')")
    check(worker.value("SELECT count(*) FROM t") == 2, "the parent goes on")
    # A child that was forked in the middle of a transaction: the parent's COMMIT is not disturbed.
    worker.sql("BEGIN IMMEDIATE")
    worker.sql("INSERT INTO t VALUES('in a transaction')")
    got = worker.ask("fork", statements=["COMMIT", "SELECT onepen_error()"])
    check(got["told"] and not got["told"][0]["ok"], "COMMIT in the child must be refused", got)
    worker.sql("COMMIT")
    check(worker.quit() == 0, "the parent ends in good order")
    again = Worker(root)
    again.open(uri("app", home, root.cache()))
    rows = [row[0] for row in again.sql("SELECT x FROM t ORDER BY rowid")]
    check(rows == ["parent", "parent again", "in a transaction"], "the stream holds the parent's rows, once, and nothing of the child", rows)
    again.quit()
    again = Worker(root)
    again.open(uri("app", home, root.cache()))
    # What else a child meets on the connections it inherited: told at once, never by waiting for threads that are not there.
    got = again.ask("fork", statements=["SELECT onepen_synced()", "SELECT onepen_error()", "SELECT onepen_status()", "PRAGMA onepen_check"])
    synced, sentence, status, checked = got["told"]
    check(not synced["ok"] and not checked["ok"], "a child cannot confirm what its parent owns", got)
    check("fork()" in sentence["rows"][0][0], "the sentence names fork()", sentence)
    state = json.loads(status["rows"][0][0])
    check(state["role"] == "reset" and "fork()" in state["reset"]["message"], "the status of a child is no owner's", state)
    again.quit()
    prefork(root)
    print(f"fork: two children refused ({text.strip()!r}); the parent committed before, between and after; {len(rows)} rows are there, none of a child")


main(test, "fork")
