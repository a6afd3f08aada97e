"""fork() with an open database: the child is refused with a sentence, and the parent goes on as if nothing had happened."""

from harness import SQLITE_AUTH, Worker, check, main, uri


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
    print(f"fork: two children refused ({text.strip()!r}); the parent committed before, between and after; {len(rows)} rows are there, none of a child")


main(test, "fork")
