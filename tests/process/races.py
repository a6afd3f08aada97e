"""Two processes open one database at the same moment, many times: exactly one of them can write afterwards, epochs strictly rise, history agrees.

    races.py [radosgw|azurite]     in a directory, or in a bucket
"""

import random
import time

from bucket_support import WHERE, main_where, new_home
from harness import QUICK, SQLITE_AUTH, SqlError, Worker, check, seed, uri, url

ROUNDS = 30 if QUICK or WHERE != "file" else 200
ROUNDS_PER_PROCESS = 20  # then both processes are new ones
HEAD_START_NS = 3_000_000  # both spin until this much later, so that neither pipe write decides the race


def open_both(pair, names):
    at = time.monotonic_ns() + HEAD_START_NS
    for worker, name in zip(pair, names):
        worker.send("open", uri=name, at=at)
    opened = []
    for worker in pair:
        try:
            worker.answer()
            opened.append(worker)
        except SqlError as error:
            # Losing the race while opening is an answer too, but only these: somebody newer owns it, or the claims raced.
            sentence = worker.sentence()
            check(error.code == SQLITE_AUTH, "an open that lost the race must fail with code 23", str(error), sentence)
            check("fenced" in sentence or "claim" in sentence, "an open that lost the race must say who won", sentence)
    return opened


def test(root):
    home = new_home(root)
    caches = [root.cache(), root.cache()]
    names = [uri("app", home, cache, notice_within="50") for cache in caches]
    start = seed()
    chance = random.Random(start)
    print(f"races: seed {start}")
    last_epoch = 0
    pair = []
    wins = {0: 0, 1: 0}
    lost_opens = 0
    written = []
    for number in range(ROUNDS):
        if number % ROUNDS_PER_PROCESS == 0:
            for worker in pair:
                worker.quit()
            pair = [Worker(root), Worker(root)]
        opened = open_both(pair, names)
        check(opened, f"round {number}: neither of two processes could open the database", pair[0].sentence(), pair[1].sentence())
        lost_opens += 2 - len(opened)
        order = opened[:]
        chance.shuffle(order)
        winners = []
        for worker in order:
            try:
                worker.sql("CREATE TABLE IF NOT EXISTS t(round INTEGER, who INTEGER)")
                worker.sql("INSERT INTO t VALUES(?, ?)", number, worker.pid)
                winners.append(worker)
            except SqlError as error:
                check(error.code == SQLITE_AUTH, f"round {number}: the loser must be refused with code 23", str(error), worker.sentence())
        check(len(winners) == 1, f"round {number}: exactly one process must be able to write, {len(winners)} could", [w.status() for w in opened])
        winner = winners[0]
        written.append((number, winner.pid))
        epoch = winner.status()["epoch"]
        check(epoch > last_epoch, f"round {number}: epoch {epoch} after epoch {last_epoch}")
        last_epoch = epoch
        wins[pair.index(winner)] += 1
        for worker in opened:
            if worker is not winner:
                check(worker.status()["epoch"] < epoch, f"round {number}: the loser's epoch must be below the winner's", worker.status(), winner.status())
        if number % 10 == 9 or number == ROUNDS - 1:
            history = root.onepen_json("history", "app", "--home", url(home))
            rows = history["owners"] if isinstance(history, dict) else history
            epochs = [row["epoch"] for row in rows]
            check(epochs == sorted(set(epochs)), f"round {number}: epochs in the history must strictly rise", epochs)
            check(epochs[-1] == epoch and rows[-1]["pid"] == winner.pid, f"round {number}: the newest owner in the history must be pid {winner.pid} with epoch {epoch}", rows[-1])
        if number == ROUNDS - 1:
            got = [tuple(row) for row in winner.sql("SELECT round, who FROM t ORDER BY rowid")]
            check(got == written, "the rows must be those of the winners, each once, in order", got[-3:], written[-3:])
        for worker in opened:
            worker.close()
    for worker in pair:
        worker.quit()
    print(f"races ({WHERE}): {ROUNDS} rounds of two opens at the same moment: exactly one writer each time (first process {wins[0]}, second {wins[1]}; "
          f"{lost_opens} opens were refused), {ROUNDS} rows of the winners are there once, last epoch {last_epoch}, history agrees")


main_where(test, "races")
