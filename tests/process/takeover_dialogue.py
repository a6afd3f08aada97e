"""What became of pending commits when another process took over: the dialogue of issue 3, and the same without anybody having written.

A (epoch 7) has commits acknowledged up to sequence 41 and three pending. The first of them lands, but its answer is lost: A's sending thread is held right
after the object got its name (faults.c). From here the stories part:
  * B claims 8, learns that 7 closed at 42, and writes. A's next onepen_synced() is refused, the handle resets `fenced`, once. A reopens: its two unlanded
    commits are in salvage, with a manifest; the landed one is in the database, once.
  * nobody writes. A is killed and reopens: the landed one is recognised, the other two are sent again under epoch 8, their bytes unchanged.
  * B claims, looks, and ends without writing: the same.

    takeover_dialogue.py [radosgw|azurite]     in a directory, or in a bucket: there the answer of the first is held by a proxy, and A's connection ends
"""

import re

from bucket_support import held_create, keep, main_where, new_home, put_back
from harness import Worker, check, reset_kind, url
from support import (NOT_NOTICED_MS, check_reset, commits, copy_of, exported_numbers, local, numbers, one_claim_to_an_epoch, owners, refused_synced, salvage, synced,
                     table, token)

EPOCHS_BEFORE = 6
ACKNOWLEDGED = 41   # the last sequence of epoch 7 that was answered
PENDING = (1001, 1002, 1003)
UNLANDED = list(PENDING[1:])


def write(worker, *rows):
    """Commits with contents that follow from their number, so that two runs have the same bytes."""
    for n in rows:
        worker.sql("INSERT INTO t VALUES(?, 'A', zeroblob(?))", n, 50 + n % 40)


def name(home, cache, **parameters):
    return local("app", home, cache, notice_within=NOT_NOTICED_MS, **parameters)


class Dialogue:
    """A as epoch 7 with three pending commits, one of them landed without its answer."""

    def __init__(self, root):
        self.root, self.home, self.cache = root, new_home(root), root.cache()
        self.of_a, self.hold = held_create(root, self.home)  # the home as A sees it, and A right after an object of its got its name
        n = 0
        for _ in range(EPOCHS_BEFORE):
            before = Worker(root)
            before.open(name(self.of_a, self.cache))
            table(before)
            n += 1
            write(before, n)
            before.quit()
        self.a = Worker(root, env={**self.hold.environment(), "ONEPEN_LOG": "stderr"})
        self.a.open(name(self.of_a, self.cache))
        check(self.a.status()["epoch"] == EPOCHS_BEFORE + 1, "A must be epoch 7", self.a.status())
        for _ in range(ACKNOWLEDGED - self.last_sequence()):  # a commit is one append
            n += 1
            write(self.a, n)
        synced(self.a)
        check(self.last_sequence() == ACKNOWLEDGED, "A's last acknowledged sequence", self.last_sequence())
        self.before = list(range(1, n + 1))
        self.token = token(self.a)
        self.hold.arm()
        write(self.a, PENDING[0])
        self.hold.wait()
        write(self.a, *UNLANDED)   # COMMIT does not wait for the home
        status = self.a.status()
        check(status["pending"] == 3 and status["role"] == "owner", "three commits must be pending", status)
        check(self.last_sequence() == ACKNOWLEDGED + 1, "the first of them has landed", self.last_sequence())
        self.landed = [append for append in commits(self.home) if append.epoch == 7]

    def last_sequence(self):
        return self.root.onepen_json("status", "app", "--home", url(self.home))["last_sequence"]

    def reopen(self, cache=None):
        worker = Worker(self.root)
        worker.open(name(self.of_a, cache or self.cache))
        return worker


def two_unlanded_in_salvage(root, story):
    """The salvage of A: by its files, and by the commands."""
    found = salvage(root, story.cache)
    check(len(found) == 1 and found[0].kind == "fenced", "A's copy must be in salvage, once", [str(one.folder) for one in found])
    kept = [row[0] for row in found[0].rows("SELECT n FROM t ORDER BY n")]
    check(kept == story.before + list(PENDING), "the salvaged database holds everything A committed", kept)
    manifest = found[0].manifest
    check(len(manifest["unsent"]) == len(UNLANDED) and manifest["owned"]["epoch"] == 7, "the manifest lists the two unlanded commits and their epoch", manifest)
    check(len(manifest["why"]) > 40, "the manifest says why", manifest)
    listed = root.onepen_json("salvage", "list", "--cache-root", story.cache)
    entries = listed["entries"]
    check(len(entries) == 1 and entries[0]["name"] == "app" and len(entries[0]["unsent"]) == len(UNLANDED), "onepen salvage list shows it", listed)
    entry = entries[0]["entry"]
    code, out, err = root.onepen("salvage", "show", entry, "--cache-root", story.cache)
    check(code == 0 and "fenced" in out and re.search(r"\b2\b", out), "onepen salvage show tells of two commits and why", out, err)
    file = root.path / "user" / root.next("salvaged-file")
    code, out, err = root.onepen("salvage", "export", entry, file, "--cache-root", story.cache)
    check(code == 0 and file.exists(), "onepen salvage export writes a plain database", out, err)
    code, out, err = root.run(["sqlite3", file, "SELECT n FROM t WHERE n > 1000 ORDER BY n"])
    check(out.split() == [str(n) for n in PENDING], "the exported file holds A's commits", out, err)
    return entry


def b_writes(root):
    story = Dialogue(root)
    a = story.a
    b = Worker(root)
    b.open(name(story.home, root.cache()))
    check(numbers(b) == story.before + [PENDING[0]], "B sees what was acknowledged and the one that landed", numbers(b)[-3:])
    newest = owners(root, story.home)[-1]
    check((newest["epoch"], newest["closed_epoch"], newest["closed_sequence"]) == (8, 7, ACKNOWLEDGED + 1), "B's claim closed epoch 7 at sequence 42", newest)
    b.sql("INSERT INTO t VALUES(2001, 'B', x'00')")
    synced(b)
    story.hold.let_go()   # A's create is told EIO, or nothing; it looks, and finds its own object
    sentence = refused_synced(a, "fenced", "epoch 7", "epoch 8", str(b.pid))
    status = check_reset(a, "fenced")
    check(numbers_refused(a), "a reset handle begins no new transaction")
    refused_synced(a, "fenced")
    check(reset_kind(a.status()) == "fenced" and a.status()["reset"]["message"] == status["reset"]["message"], "the reset stays what it was", a.status())
    check(a.quit() == 0, "a reset handle closes in good order")
    told = [line for line in a.errors().splitlines() if line.startswith("onepen warn: fenced: ") and line.endswith("take it back.")]  # refusals say more
    check(len(told) == 1, "the reset is told, and once", *a.errors().splitlines())
    b.sql("INSERT INTO t VALUES(2002, 'B', x'00')")
    synced(b)
    tokens = [story.token, token(b)]
    again = story.reopen()
    everything = story.before + [PENDING[0], 2001, 2002]
    check(numbers(again) == everything, "A's copy is the stream's again", numbers(again)[-4:])
    entry = two_unlanded_in_salvage(root, story)
    again.sql("INSERT INTO t VALUES(3001, 'A', x'00')")
    synced(again)
    tokens.append(token(again))
    refused_synced(b, "fenced", "epoch 9")
    check(again.quit() == 0 and b.quit() == 0, "both end in good order")
    once_more = story.reopen()
    check(len(salvage(root, story.cache)) == 1, "nothing more goes to salvage, and nothing is deleted from it")
    once_more.quit()
    check(exported_numbers(root, story.home) == everything + [3001], "the stream holds each acknowledged commit once, and nothing of the unlanded ones")
    one_claim_to_an_epoch(root, story.home, tokens)
    print(f"takeover_dialogue: B wrote: {sentence}")
    print(f"takeover_dialogue: B wrote: A reset once, its 2 unlanded commits are in salvage ({entry}), listed, shown and exported")


def numbers_refused(worker):
    worker.refused("SELECT count(*) FROM t")
    worker.refused("INSERT INTO t VALUES(9999, 'A', x'00')")
    return True


def resent(story, worker, what):
    """The log after somebody reopened A's copy: the landed one once, the others again under a new epoch, bytes as before. Returns their payloads."""
    synced(worker)
    check(numbers(worker) == story.before + list(PENDING), f"{what}: every commit of A is there", numbers(worker)[-4:])
    check(not salvage(story.root, story.cache), f"{what}: nothing goes to salvage")
    after = [append for append in commits(story.home) if append.epoch > 7]
    check(len(after) == len(UNLANDED), f"{what}: exactly the unlanded ones are sent again", [(append.epoch, append.sequence) for append in after])
    old = [append for append in commits(story.home) if append.epoch == 7]
    check(old == story.landed, f"{what}: what epoch 7 holds is unchanged")
    return [append.payload for append in after]


def nobody_writes(root):
    story = Dialogue(root)
    # What epoch 7 would have sent: home and copy as they are now are kept, A goes on.
    kept_home, kept_cache = keep(root, story.home), copy_of(root, story.cache)
    story.hold.let_go()
    synced(story.a)
    sent = [append.payload for append in commits(story.home) if append.epoch == 7][-len(UNLANDED):]
    check(numbers(story.a) == story.before + list(PENDING), "A goes on when its answer is found again")
    story.a.kill()
    # Both are put back to that moment: other files, the same bytes (a restored disk). Then the same without that: the very files that A left when it was killed.
    put_back(story.home, kept_home)
    put_back(story.cache, kept_cache)
    again = story.reopen()
    check(resent(story, again, "put back") == sent, "put back: the bytes of a commit are the same under the new epoch")
    again.quit()
    killed = Dialogue(root)
    killed.a.kill()
    again = killed.reopen()
    check(again.status()["epoch"] == 8, "A reopens as epoch 8", again.status())
    check(resent(killed, again, "killed") == sent, "killed: the bytes of a commit are the same under the new epoch")
    again.quit()
    check(exported_numbers(root, killed.home) == killed.before + list(PENDING), "the stream holds each once")
    print(f"takeover_dialogue: nobody wrote: the landed one is recognised, {len(sent)} are sent again under epoch 8, {sum(map(len, sent))} bytes unchanged")


def b_only_looks(root):
    """B takes over and ends without a commit: nobody wrote, so A's commits are sent again, above B's epoch."""
    story = Dialogue(root)
    b = Worker(root)
    b.open(name(story.home, root.cache()))
    check(numbers(b) == story.before + [PENDING[0]], "B sees what landed")
    b.quit()
    story.a.kill()
    again = story.reopen()
    check(again.status()["epoch"] == 9, "A reopens above B's epoch", again.status())
    resent(story, again, "B only looked")
    again.quit()
    print("takeover_dialogue: B looked and ended: A's commits are sent again under epoch 9, nothing in salvage")


def test(root):
    b_writes(root)
    nobody_writes(root)
    b_only_looks(root)


if __name__ == "__main__":
    main_where(test, "takeover_dialogue")
