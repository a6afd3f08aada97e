"""`onepen restore` under a live owner with durability=local that has pending commits, one of them landed without its answer, while readers look all the time.

The owner is `rewound`, once, whatever it had pending; its copy, with everything it ever committed, is in salvage when it opens again, and the database is what
was restored. A reader is shown the state before or the restored one, whole, and never the one before after the restored one.
"""

import threading

from bucket_support import held_create, main_where, new_home
from harness import SqlError, Worker, check, reset_kind, url
from support import NOT_NOTICED_MS, check_reset, exported_numbers, local, numbers, put, refused_synced, salvage, synced, table

KEPT, DROPPED, PENDING = [1, 2, 3], [11, 12, 13], [101, 102, 103]


class Reader(threading.Thread):
    """Opens the database to read, looks, closes, again and again, on a machine of its own."""

    def __init__(self, root, home):
        super().__init__(daemon=True)
        self.worker = Worker(root)
        self.name_of_it = local("app", home, root.cache(), mode="ro")
        self.seen, self.trouble = [], None
        self.stopping = threading.Event()
        self.looked = threading.Event()

    def run(self):
        while not self.stopping.is_set():
            try:
                self.worker.open(self.name_of_it)
                self.seen.append(tuple(numbers(self.worker)))
                self.worker.close()
            except SqlError as error:
                self.trouble = error
                break
            self.looked.set()

    def look_again(self):
        for _ in range(2):  # the look that is going on, and one that began after it
            self.looked.clear()
            check(self.looked.wait(120), "the reader looks no more", self.trouble)


def test(root):
    home, cache = new_home(root), root.cache()
    of_a, hold = held_create(root, home)
    a = Worker(root, env=hold.environment())
    a.open(local("app", of_a, cache, notice_within=NOT_NOTICED_MS))
    table(a)
    put(a, *KEPT)
    point = synced(a)
    put(a, *DROPPED)
    synced(a)
    reader = Reader(root, home)
    reader.start()
    reader.look_again()
    hold.arm()
    put(a, PENDING[0])
    hold.wait()
    put(a, *PENDING[1:])
    check(a.status()["pending"] == len(PENDING), "three commits are pending", a.status())
    reader.look_again()
    code, out, err = root.onepen("restore", "app", "--at", point, "--yes", "--home", url(home), "--cache-root", root.cache())
    check(code == 0, "onepen restore", out, err)
    reader.look_again()
    hold.let_go()
    refused_synced(a, "app")
    check_reset(a, "rewound")
    refused_synced(a, "app")
    check(reset_kind(a.status()) == "rewound", "it stays what it was", a.status())
    check(a.quit() == 0, "a reset handle closes in good order")
    reader.look_again()
    reader.stopping.set()
    reader.join(120)
    check(reader.trouble is None, "a reader is never refused by a restore", reader.trouble)
    states = [tuple(KEPT + DROPPED), tuple(KEPT + DROPPED + PENDING[:1]), tuple(KEPT)]
    order = [states.index(seen) if seen in states else -1 for seen in reader.seen]
    check(-1 not in order, "a reader sees one state of the database, whole", set(reader.seen) - set(states))
    check(order == sorted(order) and set(order) == {0, 1, 2}, "the state before, then the restored one, and no way back", order)
    again = Worker(root)
    again.open(local("app", of_a, cache))
    check(numbers(again) == KEPT, "the database is what was restored", numbers(again))
    found = salvage(root, cache)
    check(len(found) == 1 and found[0].kind == "rewound", "the copy is in salvage, once", [str(one.folder) for one in found])
    kept = [row[0] for row in found[0].rows("SELECT n FROM t ORDER BY n")]
    check(kept == KEPT + DROPPED + PENDING, "with everything it ever committed", kept)
    put(again, 201)
    synced(again)
    again.quit()
    check(exported_numbers(root, home) == KEPT + [201], "the stream goes on from what was restored")
    print(f"restore_live: rewound, {len(kept)} rows in salvage, {len(reader.seen)} looks of a reader")


main_where(test, "restore_live")
