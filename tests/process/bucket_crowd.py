"""Many processes claim one database in a bucket at the same instant, again and again: one owner to each epoch, and nothing acknowledged is lost.

    bucket_crowd.py radosgw|azurite

Each has a cache of its own and commits a row as soon as it is open. Whoever is refused is told so with code 23; whoever was answered "committed" finds
its row in the stream, once; a row that nobody was answered for may be there only if its process was not answered at all.
"""

import sys
import time

import bucket_support
from harness import QUICK, SQLITE_AUTH, SqlError, Worker, check, main, uri, url
from support import exported, one_claim_to_an_epoch, token

WHERE = sys.argv[1]
CROWD = 6
ROUNDS = 2 if QUICK else 4
HEAD_START_NS = 20_000_000


def refused(worker, error, what):
    sentence = worker.sentence()
    check(error.code == SQLITE_AUTH and len(sentence) > 30, f"{what}: it must be refused with code 23 and a sentence", str(error), sentence)


def one_round(crowd, names, number):
    """Everybody opens, and everybody that could commits a row. Returns the rows that were acknowledged, with the token of each."""
    at = time.monotonic_ns() + HEAD_START_NS
    for worker, name in zip(crowd, names):
        worker.send("open", uri=name, at=at)
    opened = []
    for which, worker in enumerate(crowd):
        try:
            worker.answer()
            opened.append((which, worker))
        except SqlError as error:
            refused(worker, error, f"round {number}: opening")
    check(opened, f"round {number}: nobody of {len(crowd)} could open the database")
    for which, worker in opened:
        worker.send("sql", sql="CREATE TABLE IF NOT EXISTS t(round INTEGER, who INTEGER, PRIMARY KEY(round, who))", params=[])
        worker.send("sql", sql="INSERT INTO t VALUES(?, ?)", params=[number, which])
    done = []
    for which, worker in opened:
        answers = []
        for _ in range(2):
            try:
                worker.answer()
                answers.append(True)
            except SqlError as error:
                check(error.code in (SQLITE_AUTH, 1), f"round {number}: a statement failed with {error.code}", str(error), worker.log.read_text()[-1000:])
                answers.append(False)
        if answers[1]:
            done.append(((number, which), worker))
    return opened, [(row, token(worker)) for row, worker in done]


def test(root):
    with bucket_support.homes(root, WHERE):
        home = bucket_support.new_home(root)
        names = [uri("app", home, root.cache(), notice_within=50) for _ in range(CROWD)]
        acknowledged, losers = [], 0
        for number in range(ROUNDS):
            crowd = [Worker(root) for _ in range(CROWD)]
            opened, rows = one_round(crowd, names, number)
            check(rows, f"round {number}: nobody could commit")
            acknowledged += rows
            losers += CROWD - len(rows)
            for worker in crowd:
                worker.quit()
        db = exported(root, home)
        there = [tuple(row) for row in db.execute("SELECT round, who FROM t ORDER BY round, who")]
        db.close()
        wanted = sorted(row for row, _ in acknowledged)
        check(there == wanted, "the stream holds each acknowledged row once, and no other", f"acknowledged: {wanted}", f"there: {there}")
        one_claim_to_an_epoch(root, home, [one for _, one in acknowledged])
        epochs = [row["epoch"] for row in root.onepen_json("history", "app", "--home", url(home))["owners"]]
        check(epochs == sorted(set(epochs)), "epochs in the history must strictly rise", epochs)
        check(root.onepen("verify", "app", "--home", url(home))[0] == 0, "onepen verify")
        print(f"bucket_crowd ({WHERE}): {ROUNDS} rounds of {CROWD} claims at one instant: {len(acknowledged)} commits acknowledged and there once, {losers} refused, "
              f"{len(epochs)} epochs with one owner each")


main(test, "bucket_crowd")
